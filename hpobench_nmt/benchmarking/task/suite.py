"""Suites: the tables, methods, trials and scores that make up a benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hpobench_nmt.benchmarking.task.priors import Guess, Made
from hpobench_nmt.core.constraints import parse_constraints
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.core.system.files import check_label
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.system.validation import Amount, Natural, NonNegative, Positive, Strict, checked
from hpobench_nmt.evaluation.scores import SCORES, Ties, score_names

INSTALLED = "installed"
DEFAULT = "default"
_MOST_TRIALS = 100_000
# The suite to recommend, by the number of objectives: one, or two and more.
_USUAL = {1: "modern-single", 2: "modern-multi"}
_Names = tuple[str, ...]
# Trials do not depend on these.
_NOT_SETTINGS = ("tables", "methods", "description", "title")
# Results folders have had these since format 1. Other keys are written only if they differ from the default.
_ALWAYS_WRITTEN = (
    "name", "scores", "objectives", "trials", "n_initial", "ties", "stop", "lookups", "tolerance", "score_at",
    "published",
)  # fmt: skip


class Suite(Strict, frozen=True):
    """The settings of a benchmark, which are the keys of a suite file. Its name is the name of the file.

    A suite that is constructed in Python is not checked key by key; `changed` and `checked` do that. The site
    shows the text below each key.
    """

    name: str
    scores: _Names
    """ftb, ftc, fb for one objective; fto, fta, fbp, fbh for two and more."""
    description: str = ""
    """One line."""
    title: str = ""
    """What a leaderboard says beside its name. Default: the description."""
    tables: _Names = (INSTALLED,)
    """Tables, collections, folders, or "installed" (default)."""
    methods: _Names = ("RS",)
    """As on the command line, or with settings: `{name = "BO_EI_M_std", length_scale = 0.5}`."""
    objectives: _Names = ()
    """One or more of "metric" and "metric:min|max". Default: the first, or first two, of each table."""
    constraints: _Names = ()
    """Bounds that a row must keep to count, such as "dev_gpu_time<=60". Default: none."""
    trials: Annotated[int, Meta(ge=1, le=_MOST_TRIALS)] = 100
    """Number of seeded trials per method and table, at most 100,000."""
    n_initial: Natural = 3
    """Number of rows in the initial design; 0 only with curves, sources or a prior."""
    ties: Ties = "any"
    """Which row with the best value meets ftb: "any", or only the "first"."""
    stop: Literal["settled", "exhausted"] = "settled"
    """When a trial ends: "settled", when no score can change; "exhausted", at the last row."""
    lookups: Positive | None = None
    """Maximum number of rows that a trial may look up. Default: no limit."""
    tolerance: dict[str, NonNegative] = msgspec.field(default_factory=dict)
    """Tolerance of ftc by table, with a `default`. If left out, it is the tolerance in the datasheet, or 5%
    of the way from the best value of all rows to the median, also under constraints.
    """
    score_at: dict[str, Amount] = msgspec.field(default_factory=dict)
    """Number of look-ups, or time on the clock, after which scores such as fb are measured, by table, with a
    `default`. The trial continues after it. (`budget` is its deprecated name.)
    """
    published: str = ""
    """A CSV file beside the suite with published figures to compare with: method, table, metric, mean, std.
    Their standard errors are computed for 100 trials.
    """
    clock: Literal["lookups", "cost"] = "lookups"
    """The clock of a trial: "lookups" (the default), on which a look-up takes one unit of time; or "cost", on
    which a training takes its cost, in the table's unit.
    """
    cost: str = ""
    """The metric that is a training's cost. Default: the cost of its curve."""
    curves: bool = False
    """Whether methods can stop trainings at checkpoints of the learning curves. The first objective must then
    be a metric of the curves; by default it is their first metric. With several objectives, the front is a
    front of checkpoints, and the objective `training_cost` is the cost of the training up to a checkpoint.
    """
    workers: Positive = 1
    """Number of trainings that run at a time."""
    resume: bool = True
    """Whether a paused training can be resumed; if not, it starts again."""
    time: dict[str, Amount] = msgspec.field(default_factory=dict)
    """Maximum time of a trial on the clock, by table, with a `default`."""
    sources: _Names = ()
    """Tables or collections that methods may learn from; a trial's own table is never among them."""
    source_of: dict[str, str] = msgspec.field(default_factory=dict)
    """For a table, its only source, which replaces `sources`. Only configurations that both tables have are
    used.
    """
    noise: Literal["", "replicates"] = ""
    """With "replicates", every look-up draws one of the row's trainings, and scores, constraints and costs
    use the row's mean. Costs of learning curves are those of the drawn training, if replicates have curves.
    Without `again`, rows with one training are left out. Default: none.
    """
    again: bool = False
    """With noise, whether a method may look up a row again, which counts as a look-up and draws another of
    its trainings. Rows with one training borrow the noise of rows with a similar loss. A trial makes all its
    look-ups, and the leaderboard has the true regret of the row that the method recommends.
    """
    prior: Made | Guess = ""
    """A user's guess of a good configuration, which methods receive: values by name, such as `prior =
    {learning_rate = 0.0003}`; or "good" or "misleading", for a prior around the best or the worst of 25
    random rows of the table; or "source", for a prior around the best row of the table's `source_of`.
    Default: none.
    """
    family: dict[str, str] = msgspec.field(default_factory=dict)
    """The family of a table: tables of one task, kind of model and space, which resemble each other. Default:
    the group that its datasheet names, or the table alone.
    """
    sample: Annotated[float, Meta(gt=0, lt=1)] | None = None
    """The share of a table's rows that a trial sees, at least 40 rows: a random part in a random order, the
    same for all methods. On a clock of costs, a trial then lasts for the time in which random search trains
    `lookups` rows in the mean. Default: trials see all rows, in their order.
    """
    development: _Names = ()
    """Deprecated, removed in 2.0: tables on which methods may have been tuned. Figures are over all."""
    pinned: dict[str, str] = msgspec.field(default_factory=dict)
    """In a frozen suite, for each table, a hash of everything that trials and scores depend on. A table that
    is not installed is then left out, with a notice.
    """

    def __post_init__(self) -> None:
        check_label("suite name", self.name)
        check_known("score", self.scores, SCORES)
        if len({SCORES[score].n_objectives for score in self.scores}) != 1:
            one, several = (", ".join(score_names(n)) for n in (1, 2))
            raise InputError(f"scores must be some of {one}, or of {several}.")
        for key in ("scores", "tables", "methods"):
            values = getattr(self, key)
            if not values:
                raise InputError(f"{key} must name at least one.")
            if len(set(values)) < len(values):
                raise InputError(f"{key} has the same name twice.")
        self._check_objectives()
        parsed = parse_constraints(self.constraints, "constraints")
        msgspec.structs.force_setattr(self, "constraints", tuple(map(str, parsed)))
        if not (self.n_initial or self.curves or self.sources or self.source_of or self.prior):
            raise InputError("n_initial must be at least 1, not 0.")
        if self.lookups is not None and self.lookups < self.n_initial:
            raise InputError(
                f"{counted(self.lookups, 'look-up is', 'look-ups are')} fewer than the {self.n_initial} "
                f"initial rows."
            )
        self._check_clock()

    def _check_objectives(self) -> None:
        needed, given = SCORES[self.scores[0]].n_objectives, min(len(self.objectives), 2)
        if self.objectives and given != needed:
            need = "needs" if len(self.scores) == 1 else "need"
            wanted = "one objective" if needed == 1 else "two or more objectives"
            raise InputError(
                f"{', '.join(self.scores)} {need} {wanted}, not {len(self.objectives)}. For "
                f"{'one' if given == 1 else 'two or more'} there is the suite {_USUAL[given]}, and the "
                f"scores are {', '.join(score_names(given))}."
            )
        if len(set(self.objectives)) < len(self.objectives):
            raise InputError("the same objective twice.")

    def _check_clock(self) -> None:
        if self.clock == "lookups" and (self.curves or self.cost):
            raise InputError(f'{"curves" if self.curves else "cost"} needs clock = "cost", not "lookups".')
        if self.curves and (self.sources or self.source_of):
            key = "sources" if self.sources else "source_of"
            works = "work" if self.sources else "works"
            raise InputError(f"{key} {works} only with whole trainings: remove curves.")
        if self.noise and self.source_of:
            raise InputError("noise and source_of cannot be combined: remove one of them.")
        if self.prior == "source" and not self.source_of:
            raise InputError('prior = "source" needs source_of, which names the source of each table.')
        if self.curves and self.cost:
            raise InputError(f"curves have their own cost: remove cost = {self.cost!r}.")
        if self.noise and self.curves:
            raise InputError(
                "noise draws whole trainings, which cannot be stopped early: remove noise, or remove curves. "
                'Then clock = "cost" counts the cost of each drawn training.'
            )
        if self.again and (not self.noise or self.timed or "fb" not in self.scores):
            raise InputError(
                'again needs noise = "replicates", the score fb, one worker, and a clock of look-ups.'
            )
        if not self.resume and not self.curves:
            raise InputError("resume = false needs curves = true, because whole trainings are never paused.")
        if self.clock == "lookups":
            self._check_lookups()

    def _check_lookups(self) -> None:
        """Refuse numbers of look-ups that are not whole, or smaller than the initial design."""
        for key in ("score_at", "time"):
            for table, at in getattr(self, key).items():
                what = key if table == DEFAULT else f"{key} of {table!r}"
                if at % 1:
                    raise InputError(f"{what} must be a whole number, not {at!r}.")
                if at * self.workers < self.n_initial:
                    least = f"less than the {counted(self.n_initial, 'initial row')}"
                    raise InputError(f"{what} is {at!r}, {least}.")

    @property
    def timed(self) -> bool:
        """Whether time differs from the number of look-ups: on the cost clock, or with several workers."""
        return self.clock != "lookups" or self.workers > 1

    @property
    def on_whole_tables(self) -> bool:
        """Whether it is frozen as in version 1.1: trials see whole tables, and end at ftc's tolerance."""
        return bool(self.pinned) and self.sample is None

    @property
    def n_objectives(self) -> int:
        """Number of its objectives, or, if it does not name any, the fewest that its scores need."""
        return len(self.objectives) or SCORES[self.scores[0]].n_objectives

    def tolerance_for(self, table: str) -> float | None:
        """Tolerance of ftc; None if the suite leaves it to the table."""
        return self.tolerance.get(table, self.tolerance.get(DEFAULT))

    def score_at_for(self, table: str) -> float | None:
        """Number of look-ups, or time, after which fb and fbp are measured; None if it is not set."""
        return self.score_at.get(table, self.score_at.get(DEFAULT))

    def time_for(self, table: str) -> float:
        """Maximum time of a trial on the clock."""
        return self.time.get(table, self.time.get(DEFAULT, math.inf))

    @property
    def without_names(self) -> Suite:
        """The suite without tables, methods and texts. Trajectories and scores depend on the rest."""
        return msgspec.structs.replace(self, **{key: _DEFAULTS[key] for key in _NOT_SETTINGS})

    def settings(self) -> dict[str, Any]:
        """The keys that trajectories and scores depend on, except tables and methods, as plain values."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in msgspec.structs.asdict(self).items()
            if key in _ALWAYS_WRITTEN or (key not in _NOT_SETTINGS and value != _DEFAULTS[key])
        }


_DEFAULTS = msgspec.structs.asdict(Suite("", ("ftb",)))


def changed(suite: Suite, **settings: Any) -> Suite:
    """The suite with other settings; InputError if they are unknown, wrong or contradict each other."""
    return checked(msgspec.structs.asdict(suite) | settings, Suite, f"suite {suite.name!r}")


def overridden(suite: Suite, settings: Mapping[str, Any]) -> Suite:
    """The suite with other settings; InputError if they are invalid or no score remains.

    In a frozen suite, only the number of trials can be changed.

    A number of look-ups is not a time. On another clock, scores that are measured after a number of look-ups
    are therefore left out unless the settings have `score_at`, and a suite that limits a trial's time needs a
    new limit. With fewer look-ups, and no `score_at`, scores such as fb are measured at the end of the trial.
    """
    same = changed(suite, **settings) if suite.pinned else suite
    other = [key for key in settings if key != "trials" and getattr(same, key) != getattr(suite, key)]
    if suite.pinned and other:
        raise InputError(
            f"suite {suite.name!r} is frozen: {', '.join(other)} cannot be changed. Run a copy of its file."
        )
    if settings.get("clock", suite.clock) == suite.clock:
        found = changed(suite, **settings)
        if "score_at" in settings or suite.clock != "lookups" or not found.lookups:
            return found
        most = max(1, found.lookups // found.workers)
        return changed(found, score_at={name: min(at, most) for name, at in found.score_at.items()})
    changes = {"time": {}, **settings}
    if "score_at" not in settings:
        scores = settings.get("scores", suite.scores)
        early = tuple(name for name in scores if name not in SCORES or not SCORES[name].needs_score_at)
        if not early:
            need = f"{', '.join(scores)} {'needs' if len(scores) == 1 else 'need'}"
            raise InputError(f"suite {suite.name!r}: {need} score_at, a time on the clock.")
        changes |= {"scores": early, "score_at": {}}
    found = changed(suite, **changes)
    if suite.time and "time" not in settings:
        raise InputError(
            f"suite {suite.name!r} limits the time of a trial on the clock {suite.clock!r}: give a limit "
            f"for the clock {found.clock!r} as time=LIMIT."
        )
    return found
