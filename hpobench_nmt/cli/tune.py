"""`hpobench-nmt tune`: a method chooses configurations, and they are trained."""

from __future__ import annotations

import itertools
import math
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpobench_nmt.cli.common import require_family, require_installed, say
from hpobench_nmt.cli.completion import completing, method_names
from hpobench_nmt.cli.options import constraint_option, count_option, flag, listed_option, option, seed_option
from hpobench_nmt.cli.own_program import WithProgram, own_devices, print_first, spec_of, write_new
from hpobench_nmt.cli.train import device_option, out_option, spec_argument, stoppable, time_limit_option
from hpobench_nmt.cli.tuning_steps import Steps
from hpobench_nmt.core.system.deprecated import warn_deprecated
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.core.system.text import counted

if TYPE_CHECKING:
    from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod
    from hpobench_nmt.core.arrays import Floats
    from hpobench_nmt.core.objectives import Metric
    from hpobench_nmt.core.problem import MethodFactory
    from hpobench_nmt.runner.specs.spec import Spec
    from hpobench_nmt.runner.training.workspace import Workspace


def _usual_method(folder: Path, objectives: tuple[str, ...], settings: dict[str, Any]) -> str:
    """The default method: that of version 1.0 if it has started this run, otherwise the current default."""
    from hpobench_nmt.runner.tuning.journal import begun_with

    if begun_with(folder, "BO_EI_M_std", settings):
        return "BO_EI_M_std"
    return "BO_levels" if settings["updates"] and len(objectives or ()) < 2 else "BO_auto"


def _updates(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    found = re.fullmatch(r"\s*([1-9][0-9]{0,11})\s*,\s*([1-9][0-9]{0,11})\s*", value)
    if not found or int(found[1]) >= int(found[2]):
        raise InputError(
            f"--updates {value!r}: must be FIRST,WHOLE, the smaller number first, such as 500,20000."
        )
    return int(found[1]), int(found[2])


@click.command(cls=WithProgram)
@spec_argument
@listed_option(
    "-m --methods",
    "METHOD",
    "NAME, FILE.py:CLASS or MODULE:CLASS.  [default: BO_auto; with --updates and one objective: BO_levels]",
    shell_complete=completing(method_names),
)
@count_option("--lookups", "Maximum number of configurations to train.", usual=20)
@count_option("--budget", "The old name of --lookups.", hidden=True)
@listed_option("--objectives", "METRIC,...", "One or two metrics.  [default: the spec's first]")
@constraint_option("A bound that a configuration must keep to be usable")
@count_option("-j --jobs", "Trainings at a time.", usual=1)
@option(
    "--updates",
    "FIRST,WHOLE",
    "Trainings can be stopped after FIRST updates or later; a whole training takes about WHOLE.",
    callback=_updates,
)
@time_limit_option(
    "Start no training after this time, such as 3h30m. With --updates, running trainings save their states "
    "and stop; otherwise, they run to their end, and at least three are started.  [default: no limit]"
)
@option(
    "--repeats",
    "",
    "Train some configurations again with other seeds, to see which is best.  [default: none]",
    type=click.Choice(["auto"]),
)
@count_option("--confirm", "Train the best five again, this many trainings in all.  [default: none]")
@option(
    "--timeout",
    "S",
    "Stop a training of PROGRAM after S seconds; it has then failed.  [default: no limit]",
    type=click.FloatRange(min=0, min_open=True),
    default=math.inf,
)
@flag("--dry-run", "Print the first run of PROGRAM.")
@flag("--new", "Write SPEC.toml, a commented search for PROGRAM.")
@seed_option()
@out_option
@device_option
@click.pass_context
def tune(
    ctx: click.Context,
    spec_path: Path,
    methods: tuple[str, ...],
    lookups: int,
    budget: int | None,
    objectives: tuple[str, ...],
    constraints: tuple[str, ...],
    jobs: int,
    updates: tuple[int, int] | None,
    time_limit: float | None,
    repeats: str | None,
    confirm: int | None,
    timeout: float,
    dry_run: bool,
    new: bool,
    seed: int,
    out: Path | None,
    device: str,
) -> None:
    """Let a method choose which configurations to train, by a model family or by a program of yours.

    'tune search.toml -- python train.py --lr {learning_rate}' runs your program, and 'tune --new search.toml'
    writes such a file. What stands after -- is the program, whose arguments have names in braces.

    The method chooses among the configurations of the grid. If [grid] has ranges, such as learning_rate =
    {from = 1e-4, to = 1e-2, scale = "log"}, configurations are drawn from the ranges first. The
    spec's key 'candidates' sets their number.

    Every training that ends is written to the same ledger as by 'train'. Trainings in the ledger are not
    repeated.

    With --updates, a method such as ASHA trains many configurations for a short time, and continues only
    with the best. Once LOOKUPS trainings have started, it resumes the trainings that it has stopped, until
    all have ended or the time limit is reached. The same command resumes a run that was stopped. Without
    --updates, trainings that have started run to their end, also after the time limit.

    With --constraint "dev_cpu_time<=7", the method looks for configurations that keep the bound, and the
    output names the best of these.

    With --repeats auto, up to 15% of LOOKUPS train configurations again with other seeds, if it is not clear
    which of the best two is better. The output names the configuration with the best expected value, and how
    sure it is that this improves on the start.

    With --confirm 20, the best five configurations are trained again with other seeds, 20 trainings in all,
    and those that are worse are eliminated. The best of the five is eliminated with a probability of at most
    5%. The same command also confirms a search that has ended.
    """
    if new:
        write_new(spec_path)
        return
    from hpobench_nmt.benchmarking.contestants.method_settings import split_spec
    from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
    from hpobench_nmt.exports.optimizer_parts import KNOWS_VALUES
    from hpobench_nmt.lookup.user_folders import training_cache
    from hpobench_nmt.methods.repeats import Repeating
    from hpobench_nmt.runner.training.run import refuse_other_device
    from hpobench_nmt.runner.training.workspace import open_workspace
    from hpobench_nmt.runner.tuning.tune import pick_constraints, pick_metrics
    from hpobench_nmt.runner.tuning.tune import tune as tune_spec

    spec = spec_of(spec_path, ctx.meta["program"], seed, timeout)
    own = spec.family.program is not None  # the user's own program
    if not own:
        require_installed("torch")
    require_family(spec.family)
    if own and updates:
        raise InputError("--updates is for model families: a program has the section [curve].")
    updates, seed = spec.curve or updates, spec.seed if own else seed
    folder = out or Path(spec.name)
    most = min(budget or lookups, spec.size)
    if repeats and most < (budget or lookups):
        say(f"The grid has {counted(most, 'configuration')}, so there are {most} trainings, with repeats.")
    begun = {"lookups": most, "workers": jobs, "updates": updates, "seed": seed}
    if len(methods) > 1:
        raise InputError(f"tune takes one method, not {len(methods)}.")
    (named,) = resolve_methods(methods or (_usual_method(folder, objectives, begun),))
    metrics = list(spec.metrics) if own and not objectives else pick_metrics(spec, objectives)
    factory = _checked_factory(named, len(metrics), jobs, updates)
    if confirm and (len(metrics) > 1 or confirm < 4):
        raise InputError(f"--confirm {confirm}: needs one objective and at least 4 trainings.")
    if repeats and (len(metrics) > 1 or updates):
        raise InputError(f"--repeats {repeats}: needs one objective and whole trainings.")
    limits = pick_constraints(spec, constraints)
    devices = _devices(spec, device, jobs)
    if dry_run:
        print_first(spec, seed, most)
        return
    workspace, ledger = open_workspace(spec, folder, training_cache())
    if device == "auto" and not own:
        refuse_other_device(workspace.ledger, ledger, devices)
    if budget:
        warn_deprecated("--budget", "--lookups", since="1.1", removed_in="2.0")
    factory = partial(Repeating, factory) if repeats else factory
    prior = known_of_spec(spec) if split_spec(named.spec)[0] == KNOWS_VALUES else None
    total = 0 if updates else most
    steps = Steps(workspace.spec, metrics, limits, jobs, total, alone=jobs == 1 and not updates)
    all_updates = most * updates[1] if own and updates else math.inf
    with stoppable(workspace.ledger):
        trajectory = tune_spec(
            workspace, factory, named.name, named.entry.identity, metrics, budget or lookups, seed, devices,
            jobs, updates, time_limit or math.inf, steps.told, constraints=limits,
            prior=prior,
            most=all_updates, repeats=repeats is not None,
        )  # fmt: skip
    if not repeats or not steps.best:
        steps.say_best()
    if steps.best and len(metrics) == 1 and not updates:
        steps.recommend()
    if confirm:
        with stoppable(workspace.ledger):
            _confirm(workspace, metrics[0], steps.expected(), confirm, devices, jobs)
    say(f"Ledger: {workspace.ledger}")
    if own:
        say(f"Logs: {workspace.log_folder}")
        say(f"Make a table: hpobench-nmt tables build {workspace.ledger}")
    if trajectory.failure:
        raise RunError(
            f"{named.name} failed after {counted(len(trajectory.rows), 'look-up')}: {trajectory.failure}"
        )


def _checked_factory(
    named: NamedMethod, n_objectives: int, jobs: int, updates: tuple[int, int] | None
) -> MethodFactory:
    """What makes the method; InputError if it cannot tune in this way."""
    from hpobench_nmt.benchmarking.contestants.plugins import refuse_objectives, refuse_sequential

    refuse_sequential(named, jobs)
    refuse_objectives(named, n_objectives)
    factory = named.load()
    if not hasattr(factory, "ask") and hasattr(factory, "suggest") and updates is None:
        raise InputError(
            f"{named.name} stops trainings early: give the updates of the first stop and of a whole "
            f"training as --updates FIRST,WHOLE, such as --updates 500,20000."
        )
    return factory


def _devices(spec: Spec, device: str, jobs: int) -> list[str]:
    from hpobench_nmt.runner.devices import find_devices, first_devices
    from hpobench_nmt.runner.training.run import gpus_a_training

    if "," in device and jobs == 1:
        raise InputError(
            f"--device {device}: give one device, or train several configurations at a time with --jobs."
        )
    if spec.family.program is not None:
        return own_devices(spec, device, jobs)
    return first_devices(find_devices(device), gpus_a_training(spec))


def _confirm(
    workspace: Workspace,
    metric: Metric,
    expected: list[tuple[int, float, int]],
    runs: int,
    devices: list[str],
    workers: int,
) -> None:
    """Train the rows with the smallest expected losses again, and print which of them remain."""
    from hpobench_nmt.core.objectives import Objective
    from hpobench_nmt.exports.confirm import eliminate
    from hpobench_nmt.runner.specs.spec import describe
    from hpobench_nmt.runner.tuning.tune import train_again

    if len(expected) < 2:
        say("Nothing to confirm: fewer than two trained configurations have a value.")
        return

    best = sorted(expected, key=lambda each: each[1])[: min(5, runs // 2)]

    def train(trainings: list[tuple[int, int]]) -> list[float]:
        rows = [(best[place][0], replicate) for place, replicate in trainings]
        return train_again(workspace, rows, metric, devices, workers)

    configs = [workspace.spec.configuration(row) for row, _, _ in best]
    found = eliminate(configs, [itertools.count(trained) for _, _, trained in best], runs, train)
    raw = Objective(metric.name, metric.direction).to_raw
    say(f"Confirmed with {sum(map(len, found.losses))} more trainings of the best {len(found.configs)}:")
    for config, own, kept in zip(found.configs, found.losses, found.remains, strict=True):
        mean = (
            f"{metric.name}={raw(float(own.mean())):.6g} in the mean of {len(own)}" if len(own) else "failed"
        )
        say(f"  {'remains' if kept else 'is worse'}: {describe(config)}  ->  {mean}")


def known_of_spec(spec: Spec) -> Floats:
    """What is known of the spec's hyperparameters, around the family's defaults, which are printed."""
    from hpobench_nmt.core.known_values import described, known_of, known_prior

    known = known_of(spec.space, typical=spec.family.defaults)
    say(f"Expected: {described(known)}; BO_auto expects nothing.")
    return known_prior(spec.space, spec.configs, known)


COMMANDS = (tune,)
