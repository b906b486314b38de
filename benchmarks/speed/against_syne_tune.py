"""ASHA with 8 workers on the curves of sw-en: this simulation, and the simulator back end of Syne Tune.

    hpobench-nmt tables fetch nmthpo && hpobench-nmt tables fetch nmtlc
    python -m venv /tmp/syne && /tmp/syne/bin/pip install "syne-tune[extra]==0.16.0"
    python benchmarks/speed/against_syne_tune.py /tmp/syne/bin/python [--configurations 300] [--runs 3]

Syne Tune has its own environment, because it pins versions. Both run ASHA by stopping (eta 3, from one
checkpoint on) until --configurations were started, because version 0.16 no longer has ASHA by promotion. In
Syne Tune, a curve that ends before others keeps its last value. The output has the processor seconds of a run
of each, the best of several runs in turns, and whether runs with the same seed have equal times on the
simulated clock. Syne Tune saves nothing, and looks for results as rarely as possible.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORKERS, ETA, BAR = 8, 3, 200
CHECKPOINT = 2000.0  # updates


def ours(configurations: int) -> tuple[float, list[float]]:
    """Seconds of a run, and its finish times."""
    import numpy as np

    from hpobench_nmt.core.problem import Problem
    from hpobench_nmt.core.seeds import method_generator
    from hpobench_nmt.core.trial_loop import run_trial
    from hpobench_nmt.lookup.catalogue import load_table
    from hpobench_nmt.methods.early.successive_halving import ASHAStopping

    table = load_table("sw-en")
    trainings = table.trainings(["dev_ppl"])
    resources = np.unique(trainings.resources)
    resources.setflags(write=False)
    # The problem allows all rows. The run stops when enough configurations were started, before they have all
    # ended.
    problem = Problem(table.features, 1, len(table), 0, workers=WORKERS, resources=resources, clock="cost")
    begun: set[int] = set()

    class Counted(ASHAStopping):
        def observe(self, progress):  # type: ignore[no-untyped-def]
            begun.add(progress.row)
            if len(begun) >= configurations:
                raise StopIteration
            super().observe(progress)

    trainings.best  # noqa: B018 - computed once for a table
    start = time.process_time()
    done = run_trial(problem, trainings, Counted, method_generator(0, "sw-en", "ASHA", 0))
    return time.process_time() - start, done.timeline.finishes.tolist()


def export(path: Path) -> None:
    """The curves as arrays of equal length."""
    import numpy as np

    from hpobench_nmt.lookup.catalogue import load_table

    table = load_table("sw-en")
    curves = table.curves
    assert curves is not None
    longest = int(curves.lengths.max())
    values = np.empty((len(table), 1, longest, 2))
    for row in range(len(table)):
        curve = curves[row]
        losses = np.minimum.accumulate(np.nan_to_num(curve.values[:, 0], nan=1e9))
        values[row, 0, :, 0] = np.append(losses, np.repeat(losses[-1], longest - len(losses)))
        values[row, 0, :, 1] = np.append(curve.costs, np.repeat(curve.costs[-1], longest - len(losses)))
    np.savez(path, values=values, rows=np.arange(len(table)))


def theirs(path: str, configurations: int) -> None:
    """Run Syne Tune, and print the seconds and the simulated time of its end."""
    import logging
    import warnings

    warnings.simplefilter("ignore")
    import numpy as np
    import pandas as pd

    with contextlib.redirect_stdout(io.StringIO()):
        from syne_tune import StoppingCriterion, Tuner
        from syne_tune.backend.simulator_backend.simulator_callback import SimulatorCallback
        from syne_tune.blackbox_repository.blackbox_tabular import BlackboxTabular
        from syne_tune.blackbox_repository.simulated_tabular_backend import UserBlackboxBackend
        from syne_tune.config_space import choice, randint
        from syne_tune.optimizer.baselines import ASHA

    logging.disable(logging.CRITICAL)
    found = np.load(path)
    values, longest = found["values"], found["values"].shape[2]
    # Syne Tune's index of configurations needs at least two hyperparameters.
    space = {"row": choice([int(row) for row in found["rows"]]), "other": choice([0, 1])}
    blackbox = BlackboxTabular(
        hyperparameters=pd.DataFrame({"row": np.repeat(found["rows"], 2), "other": [0, 1] * len(values)}),
        configuration_space=space,
        fidelity_space={"checkpoint": randint(1, longest)},
        objectives_evaluations=np.repeat(values, 2, axis=0),
        fidelity_values=np.arange(1, longest + 1),
        objectives_names=["loss", "elapsed"],
    )
    backend = UserBlackboxBackend(
        blackbox=blackbox,
        elapsed_time_attr="elapsed",
        max_resource_attr="most",
        seed=0,
        # The interval, on the simulated clock, at which it looks for results: the cost of a checkpoint.
        tuner_sleep_time=CHECKPOINT,
    )
    scheduler = ASHA(
        {**space, "most": longest},
        metric="loss",
        time_attr="checkpoint",
        max_t=longest,
        reduction_factor=ETA,
        grace_period=1,
        random_seed=0,
    )
    tuner = Tuner(
        trial_backend=backend,
        scheduler=scheduler,
        stop_criterion=StoppingCriterion(max_num_trials_started=configurations),
        n_workers=WORKERS,
        sleep_time=0,
        callbacks=[SimulatorCallback()],
        save_tuner=False,
        print_update_interval=1e9,
        results_update_interval=1e9,
        suffix_tuner_name=False,
        tuner_name=f"against-{time.time_ns()}",
    )
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        tuner.run()
    seconds = time.process_time() - start
    print(json.dumps([seconds, backend.time_keeper.time()]))


def main() -> None:
    if len(sys.argv) == 4 and sys.argv[1] == "--theirs":
        theirs(sys.argv[2], int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", help="of the environment with Syne Tune")
    parser.add_argument("--configurations", type=int, default=300)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    our_times, their_times, our_clocks, their_clocks = [], [], set(), set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "curves.npz"
        export(path)
        for _ in range(arguments.runs):
            seconds, clock = ours(arguments.configurations)
            our_times.append(seconds)
            our_clocks.add(tuple(clock))
            child = [arguments.python, __file__, "--theirs", str(path), str(arguments.configurations)]
            done = subprocess.run(child, check=True, capture_output=True, text=True)
            seconds, clock = json.loads(done.stdout.splitlines()[-1])
            their_times.append(seconds)
            their_clocks.add(clock)
    ratio = min(their_times) / min(our_times)
    verdict = "ok" if ratio >= BAR else "BELOW THE BAR"
    print(f"a run of {arguments.configurations} configurations: {min(our_times) * 1e3:.1f} ms here, "
          f"{min(their_times):.2f} s there: {ratio:,.0f} times (bar: {BAR}) {verdict}")  # fmt: skip
    for name, clocks in (("here", our_clocks), ("there", their_clocks)):
        equal = "the same" if len(clocks) == 1 else f"{len(clocks)} different ones"
        print(f"times on the simulated clock in {arguments.runs} runs with one seed, {name}: {equal}")


if __name__ == "__main__":
    main()
