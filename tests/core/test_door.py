"""Files from elsewhere are read through core/system/files.py, which limits their size and kind."""

import ast
from pathlib import Path

import hpobench_nmt

ROOT = Path(hpobench_nmt.__file__).parents[1]
READS = {"open", "read_text", "read_bytes", "read_table", "ParquetFile", "read_csv", "loadtxt", "load"}

# Modules that read files without that door, and why no foreign file comes there.
OWN = {
    "hpobench_nmt/analysis/method_card.py": "source code that runs anyway",
    "hpobench_nmt/arena/verification.py": "own cache, of the trials that were equal",
    "hpobench_nmt/benchmarking/contestants/program.py": "appends to transcripts, which the door reads",
    "hpobench_nmt/benchmarking/contestants/skeleton.py": "part of the package",
    "hpobench_nmt/benchmarking/contestants/source_files.py": "source code that runs anyway",
    "hpobench_nmt/cli/doctor.py": "/sys",
    "hpobench_nmt/cli/main.py": "/dev/null",
    "hpobench_nmt/core/system/files.py": "the door itself",
    "hpobench_nmt/core/system/folders.py": "own list of folders",
    "hpobench_nmt/core/system/process_server.py": "own logs, and /proc",
    "hpobench_nmt/core/system/processes.py": "own logs",
    "hpobench_nmt/lookup/collections/archives.py": "members of an archive that is in memory",
    "hpobench_nmt/lookup/disk/card.py": "part of the package",
    "hpobench_nmt/render/html/page.py": "parts of the package",
    "hpobench_nmt/runner/corpora/corpus.py": "own cache",
    "hpobench_nmt/runner/corpora/libreoffice_help.py": "the corpus package's own files",
    "hpobench_nmt/runner/corpora/libreoffice_pages.py": "the corpus package's own files",
    "hpobench_nmt/runner/corpora/records.py": "after text_reading.py has refused what is no regular file",
    "hpobench_nmt/runner/corpora/text_reading.py": "refuses what is no regular file; a corpus has any size",
    "hpobench_nmt/runner/devices.py": "/proc",
    "hpobench_nmt/runner/disk/appending.py": "appends",
    "hpobench_nmt/runner/disk/archives.py": "writes",
    "hpobench_nmt/runner/disk/curve_file.py": "own cache",
    "hpobench_nmt/runner/disk/locks.py": "a lock",
    "hpobench_nmt/runner/families/dynamic_evaluation.py": "own cache",
    "hpobench_nmt/runner/families/program.py": "own logs",
    "hpobench_nmt/runner/families/shared_models.py": "own cache",
    "hpobench_nmt/runner/families/sockeye.py": "own work",
    "hpobench_nmt/runner/ledgers/ledger.py": "appends, and the ends of what was read by the door",
    "hpobench_nmt/runner/ledgers/ledger_tail.py": "the ends of what was read by the door",
    "hpobench_nmt/runner/torch_training/training_state.py": "own cache",
    "hpobench_nmt/runner/nmt/commands.py": "own logs",
    "hpobench_nmt/runner/nmt/marian_corpus.py": "own cache",
    "hpobench_nmt/runner/nmt/marian_numbers.py": "own cache",
    "hpobench_nmt/runner/nmt/prepare_corpus.py": "own cache",
    "hpobench_nmt/runner/nmt/sockeye_train.py": "own work",
    "hpobench_nmt/runner/nmt/sockeye_workers.py": "own work",
    "hpobench_nmt/runner/nmt/train_model.py": "own work",
    "hpobench_nmt/runner/nmt/translate_kept.py": "own work",
    "hpobench_nmt/runner/specs/search_file.py": "part of the package",
    "hpobench_nmt/runner/specs/spec.py": "a spec that was read by the door",
    "hpobench_nmt/runner/training/status.py": "own logs",
    "hpobench_nmt/runner/training/train_row.py": "own work",
    "hpobench_nmt/runner/training/training_process.py": "own work",
}


def direct_reads(source):
    """Calls of methods that open a path, and of readers of other libraries that are given one."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id == "open":
            yield ast.unparse(node)
        elif isinstance(function, ast.Attribute) and function.attr in READS:
            text = ast.unparse(node)
            if not any(word in text for word in ("BytesIO", "BufferReader", "arrow_file(", "webbrowser.")):
                of_a_library = ast.unparse(function.value) in ("np", "pd", "pq", "arrow", "pickle")
                if of_a_library or function.attr in ("open", "read_text", "read_bytes"):
                    yield text


def found():
    for top in ("hpobench_nmt", "methods", "evaluation"):
        for path in sorted((ROOT / top).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(
                ("hpobench_nmt/methods", "hpobench_nmt/evaluation", "hpobench_nmt/tables")
            ):
                yield name, list(direct_reads(path.read_text(encoding="utf-8")))


def test_only_the_door_reads_files_from_elsewhere():
    reads = {name: calls for name, calls in found() if calls}
    assert {name: calls for name, calls in reads.items() if name not in OWN} == {}
    assert [name for name in OWN if name not in reads] == []  # such a line would hide a later read


def test_folders_are_removed_by_what_waits_for_no_pipe():
    allowed = {
        "hpobench_nmt/core/system/folders.py",  # remove_folder itself
        "hpobench_nmt/lookup/catalogue.py",  # after it has removed the datasheet inside
        "hpobench_nmt/runner/corpora/libreoffice_help.py",  # what it has just made
    }
    users = {name for name, _ in found() if "rmtree(" in (ROOT / name).read_text(encoding="utf-8")}
    assert users == allowed, "call core.system.folders.remove_folder"


def test_what_is_a_direct_read():
    for code in (
        "open('x')",
        "p.open()",
        "p.read_text()",
        "np.load(p)",
        "pd.read_csv(p)",
        "pq.read_table(p)",
    ):
        assert list(direct_reads(code)), code
    for code in ("read_bytes(p)", "pq.ParquetFile(pa.BufferReader(b))", "pd.read_csv(io.BytesIO(b))"):
        assert not list(direct_reads(code)), code
