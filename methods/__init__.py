"""HPO methods, one file per family, and the list of the built-in methods."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from hpobench_nmt.core.problem import MethodFactory
from hpobench_nmt.core.system.errors import InputError

ROWS_VERSIONS = {
    "BO_levels": 3,
    # Up to version 1.1, LAPACK inverted their matrix, so that the last bits depended on the processor.
    **dict.fromkeys(("GB_EI_M", "GB_EI_R", "GB_EIF_M", "GB_EIF_R", "GB_M", "GB_R"), 2),
    # Up to version 1.1, they failed on tables with descriptors.
    **dict.fromkeys(("optuna.TPE", "optuna.GP", "optuna.CMAES", "optuna.MOTPE", "optuna.NSGAII"), 2),
    **dict.fromkeys(("nevergrad.TwoPointsDE", "nevergrad.NGOpt", "nevergrad.OnePlusOne"), 2),
    **dict.fromkeys(("pymoo.NSGA2", "pymoo.NSGA3"), 2),
}
"""The `rows_version` of each method whose rows have changed since its first release; 1 for all others."""
_NMT = ("translation models",)
_AUTO = (
    *_NMT,
    "LSTM language models",
    "n-gram models",
    "adaptation at test time",
    "optimizers of RNNs",
    "Transformers of a benchmark of optimizers",
    "pre-training of language models",
)
TUNED_ON = {
    **dict.fromkeys(("BO_auto", "BO_known", "BO_levels"), _AUTO),
    **dict.fromkeys(("BO_EI_M", "BO_EI_R", "BO_M", "BO_R"), _NMT),
    **dict.fromkeys(("GB_EI_M", "GB_EI_R", "GB_EIF_M", "GB_EIF_R", "GB_M", "GB_R"), _NMT),
}
"""The families of tables whose results were seen when a method's settings were chosen; none for others."""


@dataclass(frozen=True)
class BuiltIn:
    """A method that comes with the package.

    Attributes:
        name: the paper's name, for a method of the paper.
        location: "module:attribute" below this package, imported when it is first used.
        objectives: numbers of objectives that it can optimise.
        description: one line.
        extra: the extra of this package that installs its libraries; "" if it needs no extra.
        libraries: third-party modules that it uses; results of other versions of them are not reused.
        partial: whether it can train rows partially; such a method has `suggest` but not `ask`.
    """

    name: str
    location: str
    objectives: tuple[int, ...]
    description: str
    extra: str = ""
    libraries: tuple[str, ...] = ()
    partial: bool = False

    @property
    def rows_version(self) -> int:
        """Rises if the method looks up other rows. Results of another version are not reused."""
        return ROWS_VERSIONS.get(self.name, 1)

    @property
    def tuned_on(self) -> tuple[str, ...]:
        """The families of tables on which it was tuned. It says nothing about other tables of these."""
        return TUNED_ON.get(self.name, ())

    @property
    def counts(self) -> str:
        """The numbers of objectives in words."""
        return _counts(self.objectives)

    def require(self) -> None:
        """Raise InputError if one of its libraries is not installed, with the command that installs it."""
        require([self])

    def missing(self) -> list[str]:
        """Its libraries that are not installed."""
        return [library for library in self.libraries if importlib.util.find_spec(library) is None]

    def load(self) -> MethodFactory:
        """The method's factory."""
        self.require()
        module, _, attribute = self.location.partition(":")
        # Libraries warn about each other, and users cannot fix that.
        with warnings.catch_warnings(action="ignore" if self.libraries else None):
            factory: MethodFactory = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
        return factory


def require(methods: Iterable[BuiltIn]) -> None:
    """Raise InputError if libraries of methods are not installed, with the command that installs them."""
    lacking = [(method, library) for method in methods for library in method.missing()[:1]]
    if lacking:
        names = "; ".join(f"method {method.name!r} needs {library}" for method, library in lacking)
        extras = ",".join(dict.fromkeys(method.extra for method, _ in lacking))
        which = "is" if len(lacking) == 1 else "are"
        raise InputError(f"{names}, which {which} not installed: pip install 'hpobench-nmt[{extras}]'.")


def _counts(objectives: tuple[int, ...]) -> str:
    if len(objectives) > 2:
        return f"{objectives[0]} to {objectives[-1]}"
    return " or ".join(map(str, objectives))


def of_objectives(objectives: tuple[int, ...]) -> str:
    """Numbers of objectives in words: "1 objective", "1 or 2 objectives", "2 to 10 objectives"."""
    return f"{_counts(objectives)} objective{'s' * (objectives != (1,))}"


_ONE = (1,)
_SEVERAL = tuple(range(2, 11))
_ANY = (*_ONE, *_SEVERAL)

_WHOLE = (
    ("RS", "random_search:RandomSearch", _ANY, "random search"),
    ("RE", "neighbourhood:RegularisedEvolution", _ONE, "regularised evolution over neighbouring rows"),
    ("LS", "neighbourhood:LocalSearch", _ONE, "local search over neighbouring rows, with restarts"),
    ("TPE", "bohb:TPE", _ONE, "choice by densities of good and of bad rows, as in BOHB"),
    ("BO_EI_M", "gaussian_process:BO_M", _ONE, "Gaussian process, Matern-5/2, EI"),
    ("BO_EI_R", "gaussian_process:BO_R", _ONE, "Gaussian process, RBF, EI"),
    ("GB_EI_M", "graph_based:GB_M", _ONE, "graph, Matern-5/2 weights, EI"),
    ("GB_EI_R", "graph_based:GB_R", _ONE, "graph, RBF weights, EI"),
    ("GB_EIF_M", "graph_based:GB_EIF_M", _ONE, "graph, Matern-5/2 weights, expected influence"),
    ("GB_EIF_R", "graph_based:GB_EIF_R", _ONE, "graph, RBF weights, expected influence"),
    ("BO_M", "gaussian_process:BO_M", _SEVERAL, "Gaussian processes, Matern-5/2, hypervolume"),
    ("BO_R", "gaussian_process:BO_R", _SEVERAL, "Gaussian processes, RBF, hypervolume"),
    ("GB_M", "graph_based:GB_M", _SEVERAL, "graph, Matern-5/2 weights, hypervolume"),
    ("GB_R", "graph_based:GB_R", _SEVERAL, "graph, RBF weights, hypervolume"),
    ("BO_EI_M_std", "gaussian_process:BO_M_std", _ONE, "BO_EI_M on standardised losses"),
    ("BO_EI_R_std", "gaussian_process:BO_R_std", _ONE, "BO_EI_R on standardised losses"),
    ("BO_M_std", "gaussian_process:BO_M_std", _SEVERAL, "BO_M on standardised losses"),
    ("BO_R_std", "gaussian_process:BO_R_std", _SEVERAL, "BO_R on standardised losses"),
    ("BO_auto", "auto:AutoBO", _ANY, "bank of Gaussian processes, robust losses, EI or hypervolume"),
    ("BO_known", "user_priors:KnownBO", _ONE, "BO_auto that expects usual values of hyperparameters by name"),
    ("TS_M_std", "thompson:ThompsonSampling", _ONE, "Thompson sampling with the model of BO_EI_M_std"),
    ("BO_EIpC_M_std", "improvement_per_cost:ImprovementPerCost", _ONE, "BO_EI_M_std, EI per expected cost"),
    ("CQR", "quantile_regression:CQR", _ONE, "conformal quantiles of boosted trees, Thompson sampling"),
    ("piBO_M_std", "user_priors:PiBO", _ONE, "BO_EI_M_std with EI weighted by the suite's prior"),
    ("BO_PF_M_std", "transfer.rgpe:PortfolioBO", (1, 2), "BO_M_std after a portfolio of other tables"),
    ("CTS", "transfer.copula:CTS", _ONE, "Thompson sampling from a prior of ranks in other tables"),
    ("GCP_M", "transfer.copula:GaussianCopula", _ONE, "Gaussian process of ranks, with a prior as in CTS"),
    ("RGPE_M", "transfer.rgpe:RGPE", (1, 2), "ensemble of Gaussian processes of this table and other tables"),
    ("ParEGO_M", "parego:ParEGO", _SEVERAL, "Gaussian process, EI of randomly weighted losses"),
    ("NSGA2", "nsga2:NSGA2Search", _SEVERAL, "pymoo's NSGA-II, moved to the nearest unseen rows"),
    ("corner", "controls:Corner", _ANY, "control that sees no loss: farthest from the centroid first"),
    ("centre", "controls:Centre", _ANY, "control that sees no loss: nearest to the centroid first"),
    ("maximin", "controls:Maximin", _ANY, "control that sees no loss: farthest from what was looked up"),
)
CONTROLS = ("corner", "centre", "maximin")
"""The methods that see no loss. They run beside others to show what a table's layout gives away."""

USES_PRIOR = ("piBO_M_std", "BO_known", "PriorBand")
"""The methods that use `Problem.prior`, which others ignore."""

_PARTIAL = (
    ("MOASHA", "early.multi_objective_halving:MOASHA", _SEVERAL, "ASHA by non-dominated rank, epsilon-net"),
    ("median_stop", "early.median_stopping:MedianStopping", _ONE, "random search and the median rule"),
    ("SH", "early.successive_halving:SuccessiveHalving", _ONE, "successive halving of random rows"),
    ("Hyperband", "early.successive_halving:Hyperband", _ONE, "Hyperband: brackets of successive halving"),
    ("ASHA", "early.successive_halving:ASHA", _ONE, "asynchronous successive halving by promotion"),
    ("ASHA_stop", "early.successive_halving:ASHAStopping", _ONE, "ASHA by stopping"),
    ("BOHB", "bohb:BOHB", _ONE, "Hyperband that chooses new rows by densities of good and of bad rows"),
    ("CQR_ASHA", "quantile_regression:ConformalASHA", _ONE, "ASHA that chooses new rows as CQR does"),
    ("PriorBand", "user_priors:PriorBand", _ONE, "Hyperband that draws some new rows from the suite's prior"),
    ("BO_levels", "level_gaussian_process:LevelBO", _ONE, "Gaussian process of rows at levels of training"),
)
_BUILT_IN = [*(BuiltIn(*row) for row in _WHOLE), *(BuiltIn(*row, partial=True) for row in _PARTIAL)]
BUILT_IN = {method.name: method for method in _BUILT_IN}

_TORCH = ("gpytorch", "torch")
# Name, location below `adapters`, objectives, description, and modules needed besides the library.
_ADAPTERS = (
    ("optuna.TPE", "optuna:TPE", _ONE, "Optuna's TPE"),
    ("optuna.GP", "optuna:GP", _ONE, "Optuna's Gaussian process, logEI", "torch"),
    ("optuna.CMAES", "optuna:CMAES", _ONE, "Optuna's CMA-ES", "cmaes"),
    ("optuna.MOTPE", "optuna:TPE", _SEVERAL, "Optuna's TPE for several objectives"),
    ("optuna.NSGAII", "optuna:NSGAII", _SEVERAL, "Optuna's NSGA-II"),
    ("smac.RF", "smac:RF", _ONE, "SMAC's random forest, EI", "ConfigSpace", "sklearn"),
    ("botorch.LogEI", "botorch:LogEI", _ONE, "BoTorch's Gaussian process, logEI", *_TORCH),
    ("botorch.LogEHVI", "botorch:LogEHVI", _SEVERAL, "BoTorch's Gaussian processes, logEHVI", *_TORCH),
    ("nevergrad.TwoPointsDE", "nevergrad:TwoPointsDE", _ONE, "Nevergrad's differential evolution", "cma"),
    ("nevergrad.NGOpt", "nevergrad:NGOpt", _ONE, "Nevergrad's choice by space and budget", "cma"),
    ("nevergrad.OnePlusOne", "nevergrad:OnePlusOne", _ONE, "Nevergrad's (1+1) for discrete spaces", "cma"),
    ("syneTune.BORE", "syne_tune:BORE", _ONE, "Syne Tune's BORE, with XGBoost", "xgboost"),
    ("pymoo.NSGA2", "pymoo:NSGAII", _SEVERAL, "pymoo's NSGA-II"),
    ("pymoo.NSGA3", "pymoo:NSGAIII", _SEVERAL, "pymoo's NSGA-III"),
)


def _adapter(name: str, where: str, objectives: tuple[int, ...], description: str, *others: str) -> BuiltIn:
    library = where.partition(":")[0]
    extra = "" if library == "pymoo" else library.replace("_", "-")  # pymoo is a dependency of the package
    extra = "optuna-gp" if name == "optuna.GP" else extra  # torch takes 0.9 GB, so it has an extra of its own
    return BuiltIn(name, f"adapters.{where}", objectives, description, extra, (library, *others))


ADAPTERS = {row[0]: _adapter(*row) for row in _ADAPTERS}
"""Optimizers of other libraries, each with the extra that installs it."""

KNOWN = {**BUILT_IN, **ADAPTERS}
"""All methods that users can name."""
