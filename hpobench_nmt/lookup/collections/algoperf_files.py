"""The trainings of AlgoPerf's logs: from a clone of the repository, its archive, or files derived from it.

Upstream, each training is a folder LOGS/SUBMISSION/study_S/WORKLOAD/trial_T with hparams.json and
eval_measurements.csv, about 2,860 files of these workloads. `runs.csv.gz` and `curves.parquet` hold the same
data, with one line per training and one line per evaluation. The trainings of each source must match the same
hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import MAX_SETTINGS_BYTES, parse_json
from hpobench_nmt.lookup.collections.archives import folder_members, tar_members
from hpobench_nmt.lookup.collections.collection import csv_frame, published_file
from hpobench_nmt.lookup.download import DEFAULT_LIMITS, Limits, download

COMMIT = "12c8e4ea93dc41a1ff6abc3debba9accd8ac1e3a"
LOGS = "previous_leaderboards/algoperf_v05/logs/external_tuning"
WORKLOADS = (
    "wmt",
    "wmt_glu_tanh",
    "librispeech_conformer",
    "librispeech_conformer_layernorm",
    "librispeech_deepspeech",
)
SETTINGS = (
    "style", "beta1", "beta2", "converge", "l2", "warmup", "eta_overrides", "dropout_rate",
    "aux_dropout_rate", "label_smoothing", "learning_rate", "one_minus_beta1", "weight_decay",
    "warmup_factor", "cycles", "warmup_steps_fraction", "disable_preconditioning", "cosine_decay_fraction",
    "power", "one_minus_beta2", "one_minus_momentum", "use_momentum", "inv_root_override", "grafting_type",
    "use_nadam", "step_hint_factor",
)  # fmt: skip
"""The hyperparameters that differ between settings of an algorithm."""
_MEASURED = ("bleu", "loss", "wer", "ctc_loss")
_COLUMNS = tuple(f"{part}/{name}" for part in ("validation", "test") for name in _MEASURED)

TRAININGS_SHA256 = "b11922787f0751af9b413adc2dacf6e6cf3662780699c79bb71d4d45b0f7d056"
_RUNS_SHA256 = "43e340d9085edef733486c16830b7ac20db70ff91bcf6795b6f06a3b791bffcc"
_CURVES_SHA256 = "d3fa7a1f1f7d4847e2112f78a92cf4d50da573fe466a7ef5d1c93e7d0567f094"
_RUNS, _CURVES = "runs.csv", "curves.parquet"

_FRAMEWORK = re.compile("_(jax|pytorch)$")
_MEMBER = re.compile(
    r"(?:.*/)?(?P<algorithm>[^/]+)/study_(?P<study>\d+)/(?P<workload>[^/]+)/trial_(?P<trial>\d+)/"
    r"(?P<file>hparams\.json|eval_measurements\.csv)"
)
_WANTED = rf"(?:[^/]+/)?{LOGS}/" + _MEMBER.pattern.removeprefix("(?:.*/)?")
_MOST_BYTES = 2**32
_DERIVED_LIMITS = replace(DEFAULT_LIMITS, max_bytes=MAX_SETTINGS_BYTES)


@dataclass(frozen=True)
class Training:
    """One training.

    Attributes:
        workload: name of the workload without the framework.
        algorithm, study, trial: name of the submission, number of the seed, and number of the setting.
        settings: values by name, for the names in SETTINGS that the algorithm has.
        updates, seconds: the updates and seconds at each evaluation, shape (k,); k may be 0.
        measured: values by column, each of shape (k,); NaN if a value is missing.
    """

    workload: str
    algorithm: str
    study: int
    trial: int
    settings: Mapping[str, float | str | bool]
    updates: Floats
    seconds: Floats
    measured: Mapping[str, Floats]


def trainings_in(source: Path) -> list[Training]:
    """The trainings in a folder, which holds the two files derived from the logs, or is a clone."""
    if (source / LOGS).is_dir():
        return trainings_of(folder_members(source / LOGS, _MEMBER.pattern, _MOST_BYTES), source)
    files = ((_RUNS, _RUNS_SHA256), (_CURVES, _CURVES_SHA256))
    runs, curves = (published_file(name, sha256, source, "", _DERIVED_LIMITS) for name, sha256 in files)
    return _from_derived(runs, curves)


def downloaded_trainings(address: str, limits: Limits) -> list[Training]:
    """The trainings in an archive of the repository on the network, read member by member."""
    content = download(address, None, limits)
    return trainings_of(tar_members(content, address, _WANTED, _MOST_BYTES), address)


def trainings_of(members: Iterable[tuple[str, bytes]], where: object) -> list[Training]:
    """The trainings in upstream's files, given as pairs of path and content, in a fixed order.

    Raises InputError if a file is invalid.
    """
    settings: dict[tuple[str, str, int, int], bytes] = {}
    evaluations: dict[tuple[str, str, int, int], bytes] = {}
    for path, content in members:
        found = _MEMBER.fullmatch(path)
        if found is None:
            continue
        workload = _FRAMEWORK.sub("", found["workload"])
        if workload in WORKLOADS:
            key = (workload, found["algorithm"], int(found["study"]), int(found["trial"]))
            (settings if found["file"] == "hparams.json" else evaluations)[key] = content
    if not settings:
        raise InputError(f"{where}: holds no {LOGS}/…/hparams.json of these workloads.")
    return [
        _training(
            key, _settings(parse_json(content, f"{where}: hparams.json of {key}")), _frame(key, evaluations)
        )
        for key, content in sorted(settings.items())
    ]


def _settings(content: object) -> dict[str, float | str | bool]:
    if not isinstance(content, dict):
        raise InputError("hparams.json: is not an object.")
    return {name: content[name] for name in SETTINGS if _is_value(content.get(name))}


def _is_value(value: object) -> bool:
    return value is not None and value == value


def _frame(
    key: tuple[str, str, int, int], evaluations: Mapping[tuple[str, str, int, int], bytes]
) -> Mapping[str, Floats]:
    if not evaluations.get(key, b"").strip():
        return {}
    frame = csv_frame(evaluations[key], f"eval_measurements.csv of {key}")
    return {str(name): frame[name].to_numpy() for name in frame}


def _from_derived(runs: bytes, evaluations: bytes) -> list[Training]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ["id", "global_step", "accumulated_submission_time", *_COLUMNS]
    table = pq.read_table(pa.BufferReader(evaluations), columns=names, use_threads=False)
    columns = {name: table.column(name).to_numpy(zero_copy_only=False) for name in names}
    starts = {str(key): part for key, part in _parts(columns["id"])}
    found = []
    for run in csv_frame(runs, _RUNS).to_dict("records"):
        workload = _FRAMEWORK.sub("", run["workload"])
        if workload not in WORKLOADS:
            continue
        key = "/".join(run[name] for name in ("board", "submission", "workload", "study", "trial"))
        part = starts.get(key, slice(0, 0))
        about = (workload, run["submission"], *(int(run[n].rpartition("_")[2]) for n in ("study", "trial")))
        given = {name: run[f"hp.{name}"] for name in SETTINGS if _is_value(run[f"hp.{name}"])}
        found.append(_training(about, given, {name: values[part] for name, values in columns.items()}))
    return sorted(found, key=lambda t: (t.workload, t.algorithm, t.study, t.trial))


def _parts(ids: Sequence[object]) -> Iterator[tuple[object, slice]]:
    """Each id, and the slice of consecutive places that have it."""
    start = 0
    for end in range(1, len(ids) + 1):
        if end == len(ids) or ids[end] != ids[start]:
            yield ids[start], slice(start, end)
            start = end


def _training(
    key: tuple[str, str, int, int],
    settings: Mapping[str, float | str | bool],
    columns: Mapping[str, Floats],
) -> Training:
    count = len(columns.get("global_step", ()))
    none = np.full(count, np.nan)

    def column(name: str) -> Floats:
        try:
            return np.asarray(columns.get(name, none), dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"eval_measurements.csv of {key}: {name} is not a number everywhere.") from None

    return Training(
        *key,
        {name: float(v) if type(v) in (int, float) else v for name, v in settings.items()},
        column("global_step"),
        column("accumulated_submission_time"),
        {name: column(name) for name in _COLUMNS},
    )


def trainings_sha256(trainings: Sequence[Training]) -> str:
    """Hash of all data that is read of the trainings. It is the same for each source."""
    digest = hashlib.sha256()
    for t in trainings:
        about = [t.workload, t.algorithm, t.study, t.trial, dict(sorted(t.settings.items()))]
        digest.update(json.dumps(about).encode())
        for values in (t.updates, t.seconds, *(t.measured[name] for name in _COLUMNS)):
            digest.update(np.where(np.isnan(values), np.nan, values).astype("<f8").tobytes())
    return digest.hexdigest()


def check_trainings(trainings: Sequence[Training], where: object) -> None:
    """Raise InputError if the trainings are not those of the commit."""
    digest = trainings_sha256(trainings)
    if digest != TRAININGS_SHA256:
        raise InputError(
            f"{where}: its {len(trainings):,} trainings have SHA-256 {digest[:12]}… instead of "
            f"{TRAININGS_SHA256[:12]}…: not those of commit {COMMIT[:12]}."
        )
