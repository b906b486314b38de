"""Loading of kept models: their family and settings are checked, and then their files are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpobench_nmt.core.system.errors import InputError, prefixed
from hpobench_nmt.runner.disk.kept_model import ABOUT, KeptModel, describe_kept, read_kept
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.family import Family

if TYPE_CHECKING:
    from hpobench_nmt.runner.lm.kept_files import KeptLanguageModel


def checked_settings(folder: Path, model: KeptModel) -> tuple[Family[Any], Any]:
    """The family and settings of a kept model. Raises InputError for settings that this version refuses."""
    where = str(folder / ABOUT)
    family = load_family(model.family)
    given = {name: family.setting(name, where).check(value, where) for name, value in model.settings.items()}
    for name, default in family.defaults.items():  # the default of a setting added later changes nothing
        if name not in given and default is None:
            raise InputError(f"{where}: the setting {name} is missing.")
    settings = family.settings(**given)
    with prefixed(where):
        family.check(settings)
    return family, settings


def load_language_model(folder: Path, device: str) -> KeptLanguageModel:
    """A kept language model. Its weights have the same bits as when it was saved.

    Raises InputError if the folder has no kept model, a model of another kind, or a damaged file.
    """
    from hpobench_nmt.runner.lm.kept_files import read_language_model

    about = read_kept(folder)
    family, settings = checked_settings(folder, about)
    if family.architecture is None:
        told = f"{describe_kept(about)} is not a language model"
        raise InputError(f"{folder}: {told}: use `hpobench-nmt model translate`.")
    return read_language_model(folder, about, family.architecture, settings, device)


def load_translation_model(folder: Path) -> Any:
    """A kept translation model, checked, for the `translate` of its family's translator.

    Raises InputError if the folder has no kept model, a model of another kind, or a damaged file.
    """
    about = read_kept(folder)
    family, settings = checked_settings(folder, about)
    if family.translator is None:
        told = f"{describe_kept(about)} is a language model"
        raise InputError(f"{folder}: {told}: use `hpobench-nmt model evaluate`.")
    return family.translator.read(folder, about, settings)
