"""Deprecated names keep working for at least one minor version, and warn when they are used."""

from __future__ import annotations

from hpobench_nmt.core.system.errors import warn


def warn_deprecated(old: str, new: str, *, since: str, removed_in: str) -> None:
    """Warn that `new` replaces `old`, which is deprecated since one version and removed in another."""
    warn(
        f"{old} is deprecated since version {since} and will be removed in version {removed_in}: use {new}.",
        FutureWarning,
    )
