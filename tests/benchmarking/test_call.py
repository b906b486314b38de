import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest

import hpobench_nmt as hb
import hpobench_nmt.benchmarking.run
from hpobench_nmt.benchmarking.call import _with_every_method, benchmark
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.random_search import exact_random_search
from hpobench_nmt.evaluation.scores import SCORES
from hpobench_nmt.lookup.disk.folder import save_folder
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.render.plots.curves import plot_regret


def test_the_whole_benchmark_in_one_call(toy):
    results = benchmark(toy, ["RS", "BO_EI_M"], trials=30, seed=1)
    frame = results.scores()
    assert set(frame["score"]) == {"ftb", "ftc", "fb"}
    assert (frame["trials"] == 30).all()
    assert (frame["failed"] == 0).all()
    mean = frame.set_index(["method", "score"])["mean"]
    assert mean["BO_EI_M", "ftb"] >= 3


def test_results_cannot_be_changed(toy):
    results = benchmark(toy, ["RS"], trials=2)
    trials = results.trials["toy", "RS"]
    for array in (trials.looked_up, trials.starts, trials.table_losses):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 1
    with pytest.raises(ValueError, match="read-only"):
        results.instances["toy"].losses[:] = 1
    clock = benchmark(toy, ["RS"], trials=2, workers=2, score_at=5).trials["toy", "RS"]
    for array in (clock.losses, clock[0].losses, clock.timing.costs, clock[0].timing.finishes):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 1


def test_a_limit_of_time_may_be_a_number(toy):
    results = benchmark(toy, ["RS"], trials=1, scores=["ftb"], time=9, workers=2, stop="exhausted")
    assert results.suite.time == {"default": 9}
    assert len(results.trials["toy", "RS"][0].rows) == 18


def test_a_class_is_a_method(toy):
    results = benchmark(toy, [Backwards], trials=3)
    best = int(toy.best_rows("bleu")[0])
    for trial in results.trials["toy", "Backwards"]:
        after = trial.rows[3:]
        assert (np.diff(after) < 0).all()
        assert best in trial.rows


@pytest.mark.parametrize("scores", [("ftb", "ftc", "fb"), ("fto", "fta", "fbp")])
def test_simulated_random_search_agrees_with_its_exact_scores(toy, scores):
    objectives = ["bleu", "seconds"] if "fto" in scores else ["bleu"]
    results = benchmark(toy, ["RS"], objectives=objectives, scores=scores, trials=1500, seed=3, score_at=8)
    for asked, found in zip(results.instances["toy"].goals, results.summary("toy", "RS"), strict=True):
        mean, std = exact_random_search(asked, 3)
        assert abs(found.mean - mean) < 4 * std / np.sqrt(1500), asked.score
        assert found.std == pytest.approx(std, rel=0.15), asked.score


def test_stopping_when_settled_changes_no_score(toy):
    settled = benchmark(toy, ["RS", "BO_EI_M", "GB_EIF_R"], trials=20)
    whole = benchmark(toy, ["RS", "BO_EI_M", "GB_EIF_R"], trials=20, stop="exhausted")
    assert settled.scores().equals(whole.scores())
    for key, trials in whole.trials.items():
        for long, short in zip(trials, settled.trials[key], strict=True):
            assert len(long.rows) == 36
            np.testing.assert_array_equal(long.rows[: len(short.rows)], short.rows)


def test_score_at_is_left_out_where_no_score_needs_it(toy):
    results = benchmark(toy, ["RS"], scores=["ftb"], trials=2, n_initial=25)
    assert results.suite.score_at == {}


def test_look_ups_can_be_limited_and_what_is_not_reached_is_said(toy):
    results = benchmark(toy, ["RS"], trials=50, lookups=6, score_at=6)
    ftb, _, fb = results.summary("toy", "RS")
    assert ftb.unanswered > 0
    assert np.isnan(ftb.mean)
    assert 3 <= ftb.at_least <= 6
    assert fb.unanswered == 0
    assert max(len(t.rows) for t in results.trials["toy", "RS"]) == 6


def suite(**changes):
    return changed(Suite("s", ("ftb", "ftc", "fb"), score_at={"default": 5}), **changes)


def few_rows(table, n):
    return Table(
        "few", table.hyperparameters, table.metrics, table.configs[:n], table.values[:n], table.objectives
    )


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        (lambda t: few_rows(t, 2), {}, r"has 2 rows, fewer than the 3 initial ones"),
        (lambda t: few_rows(t, 1), {}, r"has 1 row, fewer"),
        (lambda t: t, {"objectives": ("blue",)}, "unknown metric 'blue'. Did you mean 'bleu'"),
        (lambda t: t, {"scores": ("fbp",), "score_at": {}}, "needs score_at"),
        (lambda t: t, {"lookups": 4}, "fb is measured after 5 look-ups, but a trial may make only 4"),
        (
            lambda t: dataclasses.replace(t, objectives=("bleu",)),
            {"scores": ("fta",)},
            r"names 1 objective of its own, but fta needs 2",
        ),
        (lambda t: t, {"tolerance": {"toy": 1e9}}, "every row is within the tolerance"),
        (lambda t: dataclasses.replace(t, values=t.values * 0 + 3), {}, "'bleu' is 3 in every row"),
        (lambda t: dataclasses.replace(t, values=t.values * np.nan), {}, "'bleu' is missing in every row"),
    ],
)
def test_a_table_that_gives_nothing_to_benchmark_is_refused(toy, table, changes, message):
    with pytest.raises(InputError, match=message):
        make_instance(suite(**changes), table(toy))


def test_no_row_with_both_objectives_is_refused(toy):
    values = toy.values.copy()
    values[::2, 0] = np.nan
    values[1::2, 1] = np.nan
    table = dataclasses.replace(toy, values=values)
    with pytest.raises(InputError, match="no row has all of bleu, seconds"):
        make_instance(suite(scores=("fta",)), table)


def test_a_table_of_exactly_the_initial_design_works(toy):
    results = benchmark(few_rows(toy, 3), ["RS", "BO_EI_M"], trials=3)
    assert (results.scores().query("score == 'ftb'")["mean"] == 3).all()


def test_the_tolerance_comes_from_the_suite_then_the_metric_then_the_spread(toy):
    def close_rows(table, **changes):
        return int(make_instance(suite(**changes), table).goals[1].targets.sum())

    loss = toy.losses(["bleu"])[:, 0]
    gaps = loss - loss.min()
    assert close_rows(toy, tolerance={"default": 2.0}) == (gaps <= 2.0 + 1e-9).sum()
    assert close_rows(toy, tolerance={"toy": 3.0, "default": 2.0}) == (gaps <= 3.0 + 1e-9).sum()
    assert close_rows(toy) == (gaps <= 0.5 + 1e-9).sum()
    seconds = toy.losses(["seconds"])[:, 0]
    spread = 0.05 * (np.median(seconds) - seconds.min())
    assert close_rows(toy, objectives=("seconds",)) == (seconds - seconds.min() <= spread + 1e-9).sum()


def test_regret_falls_to_zero_and_is_drawn(toy, tmp_path):
    results = benchmark(toy, ["RS", "BO_EI_M"], trials=10)
    figure = plot_regret(results)
    lines = {str(line.get_label()): line.get_ydata() for line in figure.axes[0].get_lines()}
    assert {"RS", "BO_EI_M"} <= set(lines)
    assert (np.diff(lines["RS"][~np.isnan(lines["RS"])]) <= 0).all()
    figure.savefig(tmp_path / "regret.png")
    assert (tmp_path / "regret.png").stat().st_size > 5000
    with pytest.raises(InputError, match="Did you mean 'toy'"):
        plot_regret(results, "toi")


def test_missing_losses_are_looked_up_but_never_the_best(toy):
    values = toy.values.copy()
    values[::4, 0] = np.nan
    table = dataclasses.replace(toy, values=values)
    results = benchmark(table, ["RS", "BO_EI_M", "GB_EIF_M"], trials=20, stop="exhausted")
    assert not results.failures()
    assert results.scores()["unanswered"].sum() == 0
    for trial in results.trials["toy", "BO_EI_M"]:
        assert np.isnan(trial.losses).sum() == 9


def test_results_say_what_they_are_in_a_line_and_as_a_table(toy):
    class Bad:
        def __init__(self, problem, rng):
            raise ValueError("<b>no</b>")

        def ask(self): ...

        def tell(self, index, losses): ...

    results = benchmark(toy, ["RS", Bad], trials=4, seed=3)
    assert repr(results) == "Results(benchmark: 4 trials of RS, Bad on toy, seed 3, 4 failed)"
    assert results.all_failed() == [("toy", "Bad")]
    html = results._repr_html_()
    assert html.startswith("<p>Results(benchmark")
    assert "<td>RS</td>" in html
    assert repr(results.instances["toy"]) == "Instance(toy: 36 rows, bleu:max; ftb, ftc, fb)"
    assert repr(results.instances["toy"].goals[2]) == "Goal('fb': 1 of 1 row, at 20)"


def test_a_suite_in_one_call_is_what_the_command_runs(toy_home, run_command, contents):
    out = Path("by-command")
    run_command(
        "run", "--tables", "toy", "--methods", "RS,BO_EI_M", "--trials", "30", "--jobs", "2", "--out", out
    )
    given = {"tables": "toy", "methods": ["RS", "BO_EI_M"], "trials": 30}
    in_memory, kept = hb.run(**given), hb.run("quick", **given, out="by-call")
    assert contents(Path("by-call")) == contents(out)
    assert in_memory.save("saved") == Path("saved")
    assert contents(Path("saved")) == contents(out)
    sent = pickle.loads(pickle.dumps(kept))  # noqa: S301  # as to a worker process
    for results in (kept, sent, hb.load_results("by-call"), hb.load_results("saved")):
        assert results.scores().equals(in_memory.scores())
    seconds = hb.load_results("saved").step_seconds["toy", "BO_EI_M"]
    assert seconds == pytest.approx(in_memory.step_seconds["toy", "BO_EI_M"], abs=1e-6)


def test_a_call_resumes_what_an_earlier_one_kept(toy_home, monkeypatch):
    hb.run(tables="toy", methods=["RS"], trials=30, out="r")
    blocks = []
    execute = hpobench_nmt.benchmarking.run.run_blocks

    def counted(todo, *arguments):
        blocks.extend(block.key for block in todo)
        return execute(todo, *arguments)

    monkeypatch.setattr(hpobench_nmt.benchmarking.run, "run_blocks", counted)
    results = hb.run(tables="toy", methods=["RS", "BO_EI_M"], trials=30, out="r")
    assert blocks == [("toy", "BO_EI_M", 0), ("toy", "BO_EI_M", 25)]
    assert results.methods == ("RS", "BO_EI_M")
    with pytest.raises(InputError, match="has a run with trials 30, but this run has 5"):
        hb.run(tables="toy", methods=["RS"], trials=5, out="r")


def test_results_are_saved_only_where_their_own_run_is(toy_home, toy):
    results = hb.run(tables=toy, methods=["RS"], trials=2)
    with pytest.raises(InputError, match="has a run with seed 1, but this run has 0"):
        results.save(hb.run(tables=toy, methods=["RS"], trials=2, seed=1).save("other"))
    with pytest.raises(InputError, match="only results of a run can be saved"):
        dataclasses.replace(results, manifest=None).save("new")
    # On a clock, of a class, on a table that is not installed.
    save_folder(toy, Path("tables/toy"))
    folder = Path("tables/toy")
    clock = hb.run(tables=folder, methods=[Backwards], trials=3, scores=["ftb"], cost="seconds")
    again = hb.load_results(clock.save("clock"))
    assert again.scores().equals(clock.scores())
    assert again.instances["toy"].time_unit == "s"


class Backwards:
    """The rows from the last one on."""

    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))

    def ask(self):
        return self.left[-1]

    def tell(self, index, losses):
        self.left.remove(index)


def test_a_suite_is_a_name_a_file_or_a_suite(toy_home, toy):
    Path("mine.toml").write_text('scores = ["ftb"]\ntables = ["toy"]\ntrials = 4\nmethods = ["RS"]\n')
    of_file = hb.run(Path("mine.toml"))
    assert hb.run("mine.toml").scores().equals(of_file.scores())
    assert hb.run(of_file.suite).scores().equals(of_file.scores())
    assert (
        hb.run(hb.Suite("mine", ("ftb",), trials=4), tables=[toy], methods=["RS"])
        .scores()
        .equals(of_file.scores())
    )
    assert repr(of_file) == "Results(mine: 4 trials of RS on toy, seed 0)"


def test_what_is_left_out_warns_unless_it_is_caught(toy_home, toy):
    with pytest.warns(
        UserWarning, match="Without curves every training runs to its end: ASHA cannot stop trainings early"
    ):
        hb.run(tables=toy, methods=["ASHA"], trials=2)
    said = []
    hb.run("quick", tables="toy", methods=["RS"], trials=2, clock="cost", cost="seconds", notify=said.append)
    assert said == ["Left out: fb. On this clock it needs a time, score_at."]


def test_all_stands_beside_ones_own(toy):
    found = _with_every_method(Suite("s", ("ftb",)), ["all", Backwards, "RS"], print)
    assert {"RS", "BO_EI_M", "GB_EIF_M"} < set(found[:-1])
    assert found[-1] is Backwards
    assert len(set(found)) == len(found)


def test_results_are_loaded_with_methods_by_name_file_and_class(toy_home, toy):
    Path("mine.py").write_text(
        "from hpobench_nmt.methods.gaussian_process import bayesian_optimisation\n"
        "from hpobench_nmt.methods.kernels import matern52\n"
        "MINE = bayesian_optimisation(matern52)\n"
    )
    hb.run(tables="toy", methods=["RS", "mine.py:MINE", Backwards], trials=2, out="r")
    results = hb.load_results("r", methods=["RS", "mine.py:MINE", Backwards, "GB_EIF_M"])
    assert sorted(results.loaded) == ["Backwards", "MINE", "RS"]
    assert hb.load_results("r", methods=results.loaded.values()).loaded == results.loaded
    assert list(hb.load_results("r", methods="RS").loaded) == ["RS"]
    with pytest.raises(InputError, match=r"unknown method 'RSS'\. Did you mean 'RS'"):
        hb.load_results("r", methods=["RSS"])


def test_a_new_score_is_not_computed_unless_it_is_named(toy, monkeypatch):
    ftb = SCORES["ftb"]
    monkeypatch.setitem(SCORES, "new", dataclasses.replace(ftb, name="new", default=False))
    assert benchmark(toy, ["RS"], trials=1).suite.scores == ("ftb", "ftc", "fb")
    named = benchmark(toy, ["RS"], trials=1, scores=["new", "ftb"])
    new, known = named.summary("toy", "RS")
    assert repr(new) == repr(known)  # NaN is not NaN
