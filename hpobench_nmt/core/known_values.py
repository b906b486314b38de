"""What is known of hyperparameters by their names: where the best value is expected before any training.

    symbol      meaning
    x           a hyperparameter's value in raw units, or 1 - value for decay rates of moving averages
    c, s        centre and standard deviation of log10 x

Each hyperparameter is log-normal and independent of the others. The densities are wide and come from papers
and from defaults of public libraries, not from tables. Dropout, weight decay, widths and depths have none,
because their best values depend on the task. Other hyperparameters may have the same name, such as a rate
that a schedule multiplies, so a density only counts if the values on offer enclose 10^(c - s) and 10^(c + s).
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hpobench_nmt.core.arrays import Floats, frozen
from hpobench_nmt.core.hyperparameter import Hyperparameter, is_number
from hpobench_nmt.core.space import Space, Value

_ADAM = "Adam's default (Kingma and Ba 2015), also that of PyTorch, Keras and Optax"
_ONE_MINUS = "one_minus_"


@dataclass(frozen=True)
class KnownValue:
    """Where the best value of a hyperparameter is expected.

    Attributes:
        names: in lower case; "one_minus_" before a name of a complement means x itself.
        centre, deviation: c and s.
        source: where they come from.
        complement: whether x is 1 - value.
    """

    names: tuple[str, ...]
    centre: float
    deviation: float
    source: str
    complement: bool = False

    def x(self, values: Floats) -> Floats:
        """x of raw values, any shape."""
        return 1 - values if self.complement else values

    @property
    def value(self) -> float:
        """The expected value in raw units."""
        return float(self.x(np.array(10.0**self.centre)))

    def fits(self, axis: Hyperparameter) -> bool:
        """Whether the hyperparameter is numeric and its values enclose c - s and c + s."""
        if not axis.is_numeric:
            return False
        low, high = sorted(map(float, self.x(np.array(axis.ends))))
        below, above = (10.0 ** (self.centre + sign * self.deviation) for sign in (-1, 1))
        return bool(low <= below and above <= high)

    def log_density(self, codes: Floats) -> Floats:
        """Of N values, 0 at the centre; shapes (N,). An inactive one counts as one deviation away."""
        x = np.maximum(self.x(codes), 1e-300)
        return np.nan_to_num(-0.5 * ((np.log10(x) - self.centre) / self.deviation) ** 2, nan=-0.5)


KNOWN_VALUES = (
    KnownValue(
        ("learning_rate", "lr", "eta", "learning_rate_init", "base_lr", "max_lr", "peak_lr", "step_size"),
        -2.8,
        0.9,
        f"0.001, {_ADAM}; 0.01 for SGD (Bengio 2012); 0.00006 to 0.0006 for GPT-3 (Brown et al. 2020)",
    ),
    KnownValue(("beta1", "beta_1", "b1", "adam_beta1"), -1.0, 0.5, f"0.9, {_ADAM}", complement=True),
    KnownValue(
        ("beta2", "beta_2", "b2", "adam_beta2"),
        -2.2,
        0.7,
        f"0.999, {_ADAM}; 0.95 for GPT-3 (Brown et al. 2020); 0.98 for Transformers (Vaswani et al. 2017)",
        complement=True,
    ),
    KnownValue(
        ("epsilon", "eps", "adam_epsilon", "adam_eps"),
        -8.0,
        1.5,
        f"1e-8, {_ADAM} but Keras (1e-7); 1e-6 for BERT (Devlin et al. 2019)",
    ),
    KnownValue(
        ("l1", "l2", "l1_regularization", "l2_regularization"),
        -6.0,
        1.5,
        "0 by default in PyTorch and Keras, 1e-4 in scikit-learn's perceptrons; 1e-6 to 1e-3 (Smith 2018)",
    ),
)


def known_of(
    space: Space, without: Container[str] = (), typical: Mapping[str, Value] | None = None
) -> dict[str, KnownValue]:
    """What is known of the hyperparameters of a space, by name.

    Args:
        space: the space.
        without: names that are left out.
        typical: raw values by name that replace the centres.
    """
    found = {axis.name: _known(axis, (typical or {}).get(axis.name)) for axis in space}
    return {name: known for name, known in found.items() if known and name not in without}


def _known(axis: Hyperparameter, typical: Value) -> KnownValue | None:
    """What is known of a hyperparameter, centred on a typical value if this is a number."""
    name = axis.name.lower()
    for known in KNOWN_VALUES:
        if known.complement and name.removeprefix(_ONE_MINUS) in known.names:
            known = replace(known, complement=not name.startswith(_ONE_MINUS))
        elif name not in known.names:
            continue
        if is_number(typical) and (x := float(known.x(np.array(typical)))) > 0:
            known = replace(known, centre=math.log10(x))
        return known if known.fits(axis) else None
    return None


def known_prior(space: Space, codes: Floats, known: Mapping[str, KnownValue]) -> Floats:
    """Log-weights of N configurations, as codes of shape (N, H): the sum of their log densities."""
    total = np.zeros(len(codes))
    for name, value in known.items():
        total += value.log_density(codes[:, space.names.index(name)])
    return frozen(total)


def described(known: Mapping[str, KnownValue]) -> str:
    """What is known in words, such as "learning_rate around 0.0016"; "nothing" if nothing is."""
    return ", ".join(f"{name} around {value.value:.2g}" for name, value in known.items()) or "nothing"
