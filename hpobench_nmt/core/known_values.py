"""What is known of hyperparameters by their names: where the best value is expected before any training.

    symbol      meaning
    x           a hyperparameter's value in raw units, or 1 - value for decay rates of moving averages
    c, s        centre and standard deviation of log10 x

Each hyperparameter is log-normal and independent of the others. The densities, in known_values.toml, are wide
and come from papers and from defaults of public libraries, not from tables. Dropout, weight decay, widths and
depths have none, because their best values depend on the task. Other hyperparameters may have the same name,
such as a rate that a schedule multiplies, so a density only counts if the values on offer enclose 10^(c - s)
and 10^(c + s).
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from hpobench_nmt.core.arrays import Floats, frozen
from hpobench_nmt.core.hyperparameter import Hyperparameter, is_number
from hpobench_nmt.core.space import Space, Value
from hpobench_nmt.core.system.validation import Strict, load_toml

_ONE_MINUS = "one_minus_"


class KnownValue(Strict, frozen=True):
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


class _File(Strict, frozen=True):
    known: tuple[KnownValue, ...]


KNOWN_VALUES = load_toml(Path(__file__).with_suffix(".toml"), _File).known


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
