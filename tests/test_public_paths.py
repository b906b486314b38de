"""What the site's programs import, and what the reference shows, is promised: it stays importable.

A name leaves this list only with a new first number of the version, after it was deprecated.
"""

import ast
import importlib
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROMISED = {
    "hpobench_nmt.analysis.compare": ["Compared"],
    "hpobench_nmt.analysis.fewer_trainings": ["FewerTrainings"],
    "hpobench_nmt.analysis.table_front": ["Front"],
    "hpobench_nmt.adapters.minimize": ["Minimum", "minimize"],
    "hpobench_nmt.adapters.optimizer": ["Optimizer"],
    "hpobench_nmt.adapters.optuna": ["MethodSampler", "suggest", "table_objective"],
    "hpobench_nmt.core.objectives": ["Metric"],
    "hpobench_nmt.core.problem": ["ConstrainedMethod", "ParallelMethod", "Progress", "Request", "Source"],
    "hpobench_nmt.core.space": ["Hyperparameter"],
    "hpobench_nmt.exports.confirm": ["Confirmed"],
    "hpobench_nmt.exports.recommended": ["Recommended"],
    "hpobench_nmt.evaluation.importance": ["importance"],
    "hpobench_nmt.evaluation.sensitivity": ["sensitivity"],
    "hpobench_nmt.lookup.curves": ["Curves"],
    "hpobench_nmt.lookup.folder": ["add_table", "save_folder"],
    "hpobench_nmt.lookup.plain_pickle": ["read_plain_pickle"],
    "hpobench_nmt.lookup.disk.folder": ["add_table", "save_folder"],
    "hpobench_nmt.lookup.collections.plain_pickle": ["read_plain_pickle"],
    "hpobench_nmt.lookup.table": ["Table"],
    "hpobench_nmt.lookup.user_folders": ["added_folder"],
    "hpobench_nmt.methods.acquisition": ["Belief"],
    "hpobench_nmt.methods.acquisitions.acquisition": ["Belief"],
    "hpobench_nmt.methods.auto": ["AutoBO"],
    "hpobench_nmt.methods.gaussian_process": ["bayesian_optimisation"],
    "hpobench_nmt.methods.kernels": ["matern52"],
    "hpobench_nmt.render.plots.curves": ["plot_luck"],
    "hpobench_nmt.render.plots.table_analyses": ["plot_importance", "plot_search_cost"],
    "hpobench_nmt.testing": ["CONFORMANCE_CHECKS", "PARALLEL_CHECKS", "checks_for"],
}
HB = ["Hyperparameter", "InputError", "Method", "Metric", "Minimum", "Objective", "Optimizer", "Problem"]
HB += [
    "Progress",
    "Request",
    "Results",
    "RunError",
    "Space",
    "Suite",
    "Table",
    "Trajectory",
]
HB += [
    "compare",
    "confirm",
    "fetch",
    "fewer_trainings",
    "import_table",
    "list_methods",
    "list_suites",
    "list_tables",
]
HB += ["load_results", "load_table", "minimize", "pareto", "plot"]
HB += ["power", "report", "run", "__version__"]
PROMISED["hpobench_nmt"] = HB

CODE = re.compile(r"^```(?:\{code-block\} )?python\n(?::caption: \S+\n)?(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^\.\. auto(?:class|function|exception):: (hpobench_nmt[\w.]*)\.(\w+)$", re.MULTILINE)
# The package is installed without its repository, and then these are absent.
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = [*sorted((ROOT / "examples").glob("*.py")), ROOT / "tests" / "typing" / "user_program.py"]


@pytest.mark.parametrize("module", PROMISED)
def test_every_promised_name_is_there_without_a_warning(module):
    if module.endswith("optuna"):
        pytest.importorskip("optuna")
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        warnings.simplefilter("error", DeprecationWarning)
        found = importlib.import_module(module)
        assert not [name for name in PROMISED[module] if not hasattr(found, name)]


def test_the_old_room_has_the_same_objects():
    for name in ("minimize", "optimizer"):
        old, new = (importlib.import_module(f"hpobench_nmt.{r}.{name}") for r in ("adapters", "exports"))
        assert all(getattr(old, each) is getattr(new, each) for each in old.__all__)


def imported(program):
    """(module, name) of what a program imports from the package or takes from `hb`."""
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hpobench_nmt"):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "hb":
            yield "hpobench_nmt", node.attr


def test_the_list_covers_what_the_site_and_the_examples_use():
    programs = [path.read_text(encoding="utf-8") for path in PROGRAMS]
    pages = [path.read_text(encoding="utf-8") for path in PAGES]
    programs += [code for page in pages for code in CODE.findall(page)]
    used = {pair for program in programs for pair in imported(program)}
    used |= {pair for page in pages for pair in SHOWN.findall(page)}
    assert len(used) > 40
    assert not {f"{m}.{name}" for m, name in used if name not in PROMISED.get(m, ())}


def test_the_reference_shows_every_name_of_the_package():
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    shown = {name for module, name in SHOWN.findall(text) if module == "hpobench_nmt"}
    assert shown == {*HB} - {"__version__"}
