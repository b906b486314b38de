"""A user's program, for type checkers: `mypy --strict` and pyright must find nothing wrong with it.

It is checked and never run.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import hpobench_nmt as hb
from hpobench_nmt.methods.acquisitions.acquisition import Belief
from hpobench_nmt.methods.gaussian_process import bayesian_optimisation
from hpobench_nmt.methods.kernels import matern52
from hpobench_nmt.testing import CONFORMANCE_CHECKS, checks_for


class Own:
    """A sequential method."""

    def __init__(self, problem: hb.Problem, rng: np.random.Generator) -> None:
        self.unseen = np.ones(len(problem.features), dtype=bool)
        self.rng = rng

    def ask(self) -> int:
        """A row at random."""
        return int(self.rng.choice(np.flatnonzero(self.unseen)))

    def tell(self, index: int, losses: NDArray[np.float64]) -> None:
        """Learn nothing."""
        self.unseen[index] = False


class Parallel(Own):
    """A method that stops trainings early."""

    def suggest(self, running: Mapping[int, float]) -> hb.Request | None:
        """A row that is not running."""
        row = self.ask()
        return None if row in running else hb.Request(row, 2.0)

    def observe(self, progress: hb.Progress) -> None:
        """Learn nothing."""
        self.unseen[progress.row] = not progress.done


def acquisition(belief: Belief) -> NDArray[np.float64]:
    """Lower confidence bound."""
    return np.asarray(2 * belief.var**0.5 - belief.mean[0])


def loss(config: Mapping[str, object]) -> float:
    """Of a configuration."""
    return float(str(config["x"]))


def main() -> None:
    """Everything that the package exports."""
    table: hb.Table = hb.load_table("sotu-ngram")
    variant = bayesian_optimisation(matern52, standardise=True, acquisition=acquisition)
    results: hb.Results = hb.run(tables=[table, "sotu-awd-lstm"], methods=["RS", Own, variant], trials=2)
    print(results.scores().to_string(), results.trials[table.name, "RS"][0].rows.tolist())
    hb.plot(results, "regret").savefig("regret.png")
    kept: Path = results.save("results")
    again: hb.Results = hb.load_results(kept, methods=["RS", "mine.py:Mine", Own])
    print(again.failures())
    suite = hb.Suite("mine", ("ftb", "fb"), score_at={"default": 20})
    more = hb.run(suite, out=Path("more"), jobs=None, seed=1, lookups=50, notify=print)
    files: list[Path] = hb.report([more, kept], out="report.html")
    print(files, hb.__version__)
    names: list[str] = hb.list_methods()["method"].tolist() + hb.list_suites()["suite"].tolist()
    print(names, hb.list_tables().to_string(), hb.fetch("nmthpo", source="files"))
    found: hb.Minimum = hb.minimize(loss, {"x": (0.0, 1.0)}, budget=5)
    print(found.best, found.loss)
    optimizer = hb.Optimizer({"x": [1, 2, 3]}, "RS")
    config = optimizer.ask()
    optimizer.tell(config, 1.0)
    space: hb.Space = table.space
    axis: hb.Hyperparameter = space[0]
    metric: hb.Metric = table.metric("dev_ppl")
    objective: hb.Objective = table.objective("dev_ppl:min")
    row: int = table.row(table.config(3))
    print(axis.name, metric.name, objective.metric, row)
    front = hb.pareto(table, ["dev_ppl", "num_ngrams"], constraints=["num_ngrams<=1e6"])
    print(front, front.rows, front.frame, front.steps, front.hypervolume + 1.0, front.plot())
    front = table.pareto(["dev_ppl", "num_ngrams"])
    for check in [*CONFORMANCE_CHECKS, *checks_for(Parallel)]:
        check(Own)
    method: hb.Method = Own(_problem(), np.random.default_rng(0))
    print(method.ask())
    trajectory: hb.Trajectory = results.trials[table.name, "RS"][0]
    print(trajectory.losses.shape)
    try:
        hb.load_table("none")
    except (hb.InputError, hb.RunError) as error:
        print(error)


def _problem() -> hb.Problem:
    return hb.Problem(features=np.zeros((3, 1)), n_objectives=1, lookups=3, n_initial=1)


if __name__ == "__main__":
    main()
