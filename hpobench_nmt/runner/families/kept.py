"""Kept models, made again: their family and settings are checked, then their files are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.disk.kept_model import ABOUT, KeptModel, describe_kept, read_kept
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.family import Family

if TYPE_CHECKING:
    from hpobench_nmt.runner.lm.kept_files import KeptLanguageModel


def checked_settings(folder: Path, model: KeptModel) -> tuple[Family[Any], Any]:
    """The family of a kept model, and its settings. Raises InputError for any that this version refuses."""
    where = str(folder / ABOUT)
    family = load_family(model.family)
    given = {name: family.setting(name, where).check(value, where) for name, value in model.settings.items()}
    for name, default in family.defaults.items():  # that of a later version changes nothing
        if name not in given and default is None:
            raise InputError(f"{where}: the setting {name} is missing.")
    settings = family.settings(**given)
    try:
        family.check(settings)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return family, settings


def load_language_model(folder: Path, device: str) -> KeptLanguageModel:
    """A kept language model. Its numbers are the same to the last bit as when it was saved.

    Raises InputError if there is none, it is of another kind, or a file of it is damaged.
    """
    from hpobench_nmt.runner.lm.kept_files import read_language_model

    about = read_kept(folder)
    family, settings = checked_settings(folder, about)
    if family.architecture is None:
        raise InputError(
            f"{folder}: {describe_kept(about)} is not a language model: use `hpobench-nmt translate`."
        )
    return read_language_model(folder, about, family.architecture, settings, device)


def load_translation_model(folder: Path) -> Any:
    """A kept translation model, checked, for the `translate` of its family's translator.

    Raises InputError if there is none, it is of another kind, or a file of it is damaged.
    """
    about = read_kept(folder)
    family, settings = checked_settings(folder, about)
    if family.translator is None:
        raise InputError(
            f"{folder}: {describe_kept(about)} is a language model: use `hpobench-nmt evaluate`."
        )
    return family.translator.read(folder, about, settings)
