"""The report as a page: what it says, of which results, and what it refuses."""

import dataclasses
import html
import json
import re
import shlex
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import msgspec
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from hpobench_nmt.analysis.board import table_boards
from hpobench_nmt.analysis.leaderboard import cells
from hpobench_nmt.analysis.provenance import command
from hpobench_nmt.analysis.report_content import headline
from hpobench_nmt.analysis.report_runs import load_runs
from hpobench_nmt.analysis.verdicts import Verdict
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.manifest import MethodEntry, manifest_of
from hpobench_nmt.benchmarking.records.store import load_results
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import changed
from hpobench_nmt.benchmarking.task.suite_files import load_suite
from hpobench_nmt.cli.results import report as report_command
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.core.system.text import UNSAFE
from hpobench_nmt.evaluation.scores import SCORES
from hpobench_nmt.render.html.page import render
from hpobench_nmt.render.report import report


def text_of(page):
    """What a reader of a page's text sees: no tags, no scripts, no styles."""
    source = re.sub(r"<(script|style).*?</\1>", " ", page.read_text(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", source)))


def test_no_address_and_no_foreign_markup(page, tools):
    source = page.read_text()
    assert tools.attack not in source  # in no form that a browser would take for tags
    assert html.escape(tools.attack) in source
    for attribute in re.findall(r'(?:src|href|action)\s*=\s*"([^"]*)"', source):
        assert attribute.startswith(("#", "data:")), attribute
    assert "url(http" not in source and "@import" not in source
    assert "default-src 'none'" in source
    ids = re.findall(r'\sid="([^"]+)"', source)
    assert len(ids) == len(set(ids))
    for reference in re.findall(r'(?:href="#|url\(#)([^")]+)', source):
        assert reference in ids, reference


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.hosts)])
def test_same_results_same_bytes_in_any_process(whole, quick, request, tmp_path):
    folders = request.getfixturevalue("folders") if whole else [quick]
    page = request.getfixturevalue("page" if whole else "quick_page")
    code = (
        "import sys; from pathlib import Path; from hpobench_nmt.render.report import report\n"
        "report([Path(a) for a in sys.argv[2:]], Path(sys.argv[1]), jobs=2)"
    )
    again = tmp_path / "again.html"
    subprocess.run([sys.executable, "-c", code, again, *folders], check=True, timeout=300)
    assert again.read_bytes() == page.read_bytes()


def test_every_verdict_is_said_and_nothing_else_is_called_better(folders, page):
    text = text_of(page)
    for run in load_runs(folders):
        for verdict in run.statistics.verdicts:
            assert re.sub(r"\s+", " ", verdict.sentence) in text
        alone = [v for v in run.statistics.verdicts if v.best and not v.tied and v.worse]
        said = headline(run)[0]
        assert str(len(alone)) in said if alone else "no method" in said
        for v in alone:
            assert f"{v.best} ({v.score} on {v.table})" in said


def test_leaderboard_is_sorted_and_marks_what_the_statistics_say(folders):
    run = load_runs(folders[:1])[0]
    found = [c for c in cells(run.results, run.statistics) if c.table == "toy"]
    board = table_boards(run.results, run.statistics)["toy"].best_first()
    values = [entries[0].value for _, entries in board.rows]
    assert values == sorted(values)
    by_key = {(c.method, c.score): c for c in found}
    for method, entries in board.rows:
        *scored, time = entries
        assert time.value == 1e3 * run.results.step_seconds["toy", method]
        for entry, column in zip(scored, board.columns, strict=False):
            cell, bar = by_key[method, column.score], column.bar(entry)
            assert entry.mark == ("best" if cell.best else "tied" if cell.tied else "")
            assert entry.value == cell.summary.mean
            assert (bar.low is None) == (cell.summary.failed > 0)
            if not cell.summary.failed:
                assert 0 <= bar.low <= bar.mean <= bar.high <= 100


def test_how_it_was_made(folders, page, tools):
    text = text_of(page)
    manifest = json.loads((folders[0] / "manifest.json").read_text())
    for entry in manifest["tables"].values():
        assert entry["sha256"] in text
    for library, version in manifest["versions"].items():
        assert f"{library} {version}" in text
    sources = ",".join(entry["source"] for entry in manifest["tables"].values())
    assert f" --tables {sources} " in text and "--seed 0" in text
    assert "GB_EIF_M on toy: 1 of 8 trials failed." in text
    assert "0 (1 of 8)" in text and tools.attack in text


@pytest.mark.parametrize("settings", [{}, {"n_initial": 4}])
def test_the_command_names_a_shipped_suite_only_where_it_is_that_suite(tmp_path, tools, settings):
    suite = changed(load_suite("quick"), objectives=("bleu",), trials=2, **settings)
    table = tools.table()
    folder = tools.run(tmp_path / "a folder" / "results", [table], suite, methods=["RS"])
    (run,) = load_runs([folder])
    name = "quick.toml" if settings else "quick"
    source = tmp_path / "a folder" / "tables" / table.name
    assert shlex.split(command(run))[:5] == ["hpobench-nmt", "run", name, "--tables", str(source)]


def test_the_command_of_an_own_suite_says_its_budget(folders):
    (run,) = load_runs(folders[:1])
    words = shlex.split(command(run))
    assert words[words.index("--set") + 1] == "score_at=8"


@pytest.mark.parametrize(
    "objectives", [("bleu",), pytest.param(("bleu", "seconds"), marks=pytest.mark.oracle)]
)
def test_a_table_on_which_no_method_is_through_yet(tools, tmp_path, objectives):
    suite = tools.suite(scores=("fb" if len(objectives) == 1 else "fbp",), objectives=objectives, trials=1)
    folder = tools.run(tmp_path / "results", [tools.table(), tools.table("other", seed=5)], suite, ["RS"])
    shutil.rmtree(folder / "observations" / "toy")
    text = text_of(report([folder], tmp_path / "r.html", jobs=1)[0])
    assert "on toy: no method has finished yet." in text
    assert "every trial failed" not in text


def test_elsewhere_is_said_where_there_is_one(folders):
    (run,) = load_runs(folders[:1])

    def said(*verdicts):
        statistics = dataclasses.replace(run.statistics, verdicts=verdicts)
        return " ".join(headline(dataclasses.replace(run, statistics=statistics)))

    alone = Verdict("toy", "ftb", "A", (), ("B",), (), "A leads.")
    tied = Verdict("toy", "ftc", "A", ("B",), (), (), "A and B lead.")
    none = Verdict("toy", "fb", "", (), (), (), "Nobody leads.")
    assert "Elsewhere 2 methods share the lead" in said(alone, tied)
    assert "There, 2 methods share the lead" in said(tied, tied)
    assert "in which some method" not in said(alone, tied)
    assert "Of the 2 of 3 table-and-score pairs in which some method has a best mean, 1 has" in said(
        alone, tied, none
    )
    assert "In the one table and score, A is shown" in said(alone)


def test_failed_trials_only(tools, tmp_path):
    suite = tools.suite(scores=("ftb", "fb"))
    folder = tools.run(tmp_path / "results", [tools.table()], suite, ["RS", "GB_EIF_M"])
    tools.fail(folder, "toy", "GB_EIF_M", "out of memory", range(8))
    text = text_of(report([folder], tmp_path / "r.html", jobs=1)[0])
    assert "GB_EIF_M on toy: 8 of 8 trials failed." in text and "out of memory" in text


def test_unfinished_methods_are_named(tools, tmp_path):
    suite = tools.suite(scores=("fb",), trials=2)
    folder = tools.run(tmp_path / "results", [tools.table()], suite, ["RS", "GB_EIF_M"])
    (folder / "observations" / "toy" / "GB_EIF_M.parquet").unlink()
    text = text_of(report([folder], tmp_path / "r.html", jobs=1)[0])
    assert "GB_EIF_M on toy is not finished." in text
    assert "Not finished, and left out: GB_EIF_M on toy." in text


def test_one_method_on_one_table(tools, tmp_path):
    folder = tools.run(tmp_path / "results", [tools.table()], tools.suite(trials=1), ["RS"])
    text = text_of(report([folder], tmp_path / "r.html", jobs=1)[0])
    assert "Only one method was run" in text
    assert "Across tables" not in text
    assert "is shown to be better" not in text
    assert "With 1 trial," in text


def test_missing_and_constant_metrics(tools, tmp_path):
    table = tools.table()
    values = table.values.copy()
    values[::3, 0] = np.nan
    values[:, 1] = 4.0
    spoilt = dataclasses.replace(table, values=values)
    folder = tools.run(tmp_path / "results", [spoilt], tools.suite(), ["RS", "BO_EI_M_std"])
    page = report([folder], tmp_path / "r.html", jobs=1)[0]
    assert "Simple regret" in text_of(page) and "nan" not in page.read_text().lower().split("</script>")[0]


def test_a_gap_that_random_search_may_have_none_of(tools, tmp_path):
    table = tools.table()
    values = table.values.copy()
    values[:9, 0] = np.nan  # more rows without a value than are drawn
    suite = tools.suite(scores=("fb",), score_at={"default": 8})
    folder = tools.run(
        tmp_path / "results", [dataclasses.replace(table, values=values)], suite, ["RS", "BO_EI_M"]
    )
    page = report([folder], tmp_path / "r.html", jobs=1)[0]
    assert "nan" not in page.read_text().lower().split("</script>")[0]


def test_a_share_that_may_be_larger_is_called_a_lower_bound(tools, tmp_path):
    suite = tools.suite(scores=("ftb",), lookups=6, trials=20)
    folder = tools.run(tmp_path / "results", [tools.table()], suite, ["RS", "BO_EI_M_std"])
    text = text_of(report([folder], tmp_path / "r.html", jobs=1)[0])
    (said,) = re.findall(r"Targets met after 8 look-ups: (.*?);", text)
    assert all(re.search(rf"{method} ≥ \d+%", said) for method in ("RS", "BO_EI_M_std"))


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("quick-2", "quick"), marks=pytest.mark.oracle),
        pytest.param(("a", "a-toy"), marks=pytest.mark.oracle),
        ("run2-x", "x", "x y", "x-y"),
    ],
)
def test_ids_are_each_others_for_no_pair_of_suites(tools, tmp_path, names):
    tables = [tools.table(), tools.table("all")]
    folders = [
        tools.run(tmp_path / f"results{i}", tables, tools.suite(name, scores=("fb",), trials=1), ["RS"])
        for i, name in enumerate(names)
    ]
    source = report(folders, tmp_path / "r.html", jobs=1)[0].read_text()
    ids = re.findall(r'\sid="([^"]+)"', source)
    assert len(ids) == len(set(ids))
    written = report(folders, tmp_path / "latex", format="latex")
    assert len(written) == len({path.name for path in written}) == len(list((tmp_path / "latex").iterdir()))


class OpenTags(HTMLParser):
    """Every element is closed, by its own tag, in order."""

    VOID = frozenset(("meta", "link", "input", "img", "br", "hr", "col", "wbr"))

    def __init__(self, **settings):
        super().__init__(**settings)
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag, self.getpos()


VARIANT = """
from pathlib import Path

from hpobench_nmt.methods.gaussian_process import bayesian_optimisation
from hpobench_nmt.methods.kernels import matern52

Path(__file__).with_name("imported").touch()
BO_MINE = bayesian_optimisation(
    matern52, standardise=True, acquisition=lambda belief: belief.var**0.5 - 0.1 * belief.mean[0]
)
"""
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \x00\ra\x9b \u202etxt.exe\ufffe\udce9 ]]> --> <b>"


def test_control_characters_in_free_texts_are_escaped_and_the_page_parses(tools, tmp_path):
    """In provenance, in the manifest of a run, and in the reasons of failures."""
    from hpobench_nmt.analysis.report_runs import Run
    from hpobench_nmt.analysis.verdicts import run_statistics

    class Fails:
        def __init__(self, problem, rng):
            raise ValueError(HOSTILE)

        def ask(self):
            pass

        def tell(self, index, losses):
            pass

    table = dataclasses.replace(tools.table(), provenance={"source": HOSTILE, HOSTILE: "x"})
    suite = tools.suite(trials=2)
    methods = resolve_methods(["RS", Fails])
    results = run_suite(suite, {"toy": make_instance(suite, table)}, methods)
    entry = MethodEntry(spec=HOSTILE, fingerprint=HOSTILE)
    manifest = msgspec.structs.replace(
        manifest_of(suite, results.instances, methods, 0, {}),
        methods={"RS": entry, "Fails": entry},
        versions={HOSTILE: HOSTILE},
    )
    run = Run(HOSTILE, results, run_statistics(results), manifest)
    source = render([run], jobs=1)
    assert not UNSAFE.search(re.sub(r"[\n\t]", "", source))
    assert r"\x1b[2J\x1b]0;owned\x07" in source and r"\u202etxt.exe" in source
    tags = OpenTags(convert_charrefs=True)
    tags.feed(source)
    tags.close()
    assert tags.open == []
    for svg in re.findall(r"<svg.*?</svg>", source, flags=re.DOTALL):
        ElementTree.fromstring(svg)
    data = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', source, flags=re.DOTALL)
    assert json.loads(data[1])["methods"]


def test_a_users_variant_gets_the_curves_of_its_surrogate(tools, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(VARIANT)
    folder = tools.run(tmp_path / "r", [tools.table()], tools.suite(trials=3), ["RS", f"{file}:BO_MINE"])
    out = tmp_path / "r.html"

    def report(*arguments):
        done = CliRunner().invoke(report_command, [str(folder), "--out", str(out), "--jobs", "1", *arguments])
        if isinstance(done.exception, InputError):
            return str(done.exception)
        assert done.exit_code == 0, done.output
        return text_of(out)

    (tmp_path / "imported").unlink()
    text = report()
    assert "BO_MINE: left out, because its code is not known here." in text
    assert "--methods" in text and "RS: left out, because it gives no predictions." in text
    assert not (tmp_path / "imported").exists()  # a folder names no code that is run
    with_curves = report("--methods", f"{file}:BO_MINE")
    assert "BO_MINE: left out" not in with_curves
    assert re.search(r"Mean squared error in bleu[^:]*: [^.]*BO_MINE", with_curves)
    assert "unknown method 'RS2'" in report("--methods", "RS2")
    assert "unknown method 'GB_EIF'" in report("--methods", "GB_EIF")  # the run has no such method
    file.write_text(VARIANT.replace("0.1", "0.2"))
    assert "another version of method 'BO_MINE'" in report("--methods", f"{file}:BO_MINE")
    assert "--format html, pdf or png" in report("--methods", f"{file}:BO_MINE", "--format", "latex")


def test_results_that_are_not_of_the_table_are_refused(folders, copied, tools):
    observations = copied / "observations" / "toy"
    kept = (observations / "RS.parquet").read_bytes()
    (observations / "RS.parquet").write_bytes((observations / "GB_EIF_M.parquet").read_bytes())
    tools.rehash(copied, "toy", "RS")
    with pytest.raises(InputError, match=r"holds look-ups of \['GB_EIF_M'\] on \['toy'\], not of RS on toy"):
        load_results(copied)
    (observations / "RS.parquet").write_bytes(kept)
    tools.rehash(copied, "toy", "RS")
    load_results(copied)
    for column, value in (("row", -1), ("row", 10_000), ("loss_1", -99.0)):
        frame = pd.read_parquet(observations / "RS.parquet")
        frame.loc[3, column] = value
        frame.to_parquet(observations / "RS.parquet")
        tools.rehash(copied, "toy", "RS")
        with pytest.raises(InputError, match="its look-ups are not those of table 'toy'"):
            load_results(copied)
        (observations / "RS.parquet").write_bytes(kept)


def test_wrong_folders(quick, tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        report([tmp_path / "nowhere"], tmp_path / "r.html")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="not a results folder"):
        report([tmp_path / "empty"], tmp_path / "r.html")
    with pytest.raises(InputError, match="same results folder twice"):
        report([quick, quick], tmp_path / "r.html")
    copied = shutil.copytree(quick, tmp_path / "results")
    manifest = json.loads((copied / "manifest.json").read_text())
    del manifest["sha256"]
    (copied / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(InputError, match="format 99, newer than this version reads"):
        report([copied], tmp_path / "r.html")
    (copied / "manifest.json").write_text(json.dumps(manifest | {"versions": None}))
    with pytest.raises(InputError, match="versions must be a section of strings"):
        report([copied], tmp_path / "r.html")
    with pytest.raises(RunError, match="cannot be written"):
        report([quick], _unwritable(tmp_path), jobs=1)
    assert not (tmp_path / "r.html").exists()


def _unwritable(folder):
    (folder / "file").write_text("")
    return folder / "file" / "report.html"


def test_two_runs_of_one_suite_are_told_apart(quick, tmp_path):
    copied, same = tmp_path / "another", tmp_path / "elsewhere" / quick.name
    for folder in (copied, same):
        shutil.copytree(quick, folder)
    text = text_of(report([quick, copied], tmp_path / "r.html", jobs=1)[0])
    name = load_results(copied).suite.name
    assert f"{name} ({quick.name})" in text and f"{name} ({copied.name})" in text
    assert [run.name for run in load_runs([quick, same])] == [f"{name} (1)", f"{name} (2)"]


def test_scores_are_explained_before_they_are_used(page):
    text = text_of(page)
    body = text[text.index("Skip to the report") :]
    for score, meaning in ((s.name, s.description) for s in SCORES.values() if s.name != "fbh"):
        assert body.index(f" {score} {meaning}") == body.index(f" {score} ")
