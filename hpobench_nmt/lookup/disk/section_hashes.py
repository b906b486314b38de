"""Hashes of the sections of a datasheet that say what a table is, without their texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

HASHES = ("sections_sha256", "features_sha256")
"""The claims with these hashes."""


def section_hashes(sheet: Mapping[str, Any]) -> dict[str, str]:
    """The hash of objectives and columns, without texts, and without counts and hashes of files.

    Features have a hash of their own: tables that were written without it stay valid.
    """
    covered: dict[str, Any] = {"objectives": sheet.get("objectives")}
    for key in ("replicates", "curves"):
        if key in sheet:
            covered[key] = _without(sheet[key], "count", "sha256")
    for key in ("hyperparameters", "metrics"):
        covered[key] = _columns(sheet[key])
    features = {"features": _columns(sheet["features"])} if sheet.get("features") else {}
    parts = {key: part for key, part in zip(HASHES, (covered, features), strict=True) if part}
    texts = {key: json.dumps(part, sort_keys=True, default=str) for key, part in parts.items()}
    return {key: hashlib.sha256(text.encode()).hexdigest() for key, text in texts.items()}


def _columns(section: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A section of columns, without their texts."""
    return {name: _without(each, "unit", "description") for name, each in section.items()}


def _without(section: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key not in keys}
