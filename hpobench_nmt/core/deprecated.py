"""Deprecated names keep working for at least one minor version, and warn when they are used."""

from __future__ import annotations

from hpobench_nmt.core.errors import warn


def warn_deprecated(old: str, new: str, *, since: str, removed_in: str) -> None:
    """Warn that a name is deprecated, with the version that deprecated it and the one that removes it.

    Args:
        old: what was used, as a user writes it.
        new: what to write instead.
        since, removed_in: versions, such as "1.1" and "2.0".
    """
    warn(
        f"{old} is deprecated since version {since} and will be removed in version {removed_in}: use {new}.",
        FutureWarning,
    )
