"""Readers of collections whose tables are made of many files: logs, or results of single trainings.

A reader takes the names and contents of the files, one after another, and returns the frames that a
declaration names, with a line for each training or checkpoint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import parse_json
from hpobench_nmt.lookup.collections.collection import csv_frame
from hpobench_nmt.lookup.collections.nas_bench_nlp import nas_bench_nlp
from hpobench_nmt.lookup.collections.nmtlc import nmtlc

if TYPE_CHECKING:  # pandas is slow to import
    import pandas as pd

# Step Law's printed rates are off by 0.5% at most; neighbouring rates differ by 41%.
_ROUNDING = 0.05
_BOARD = "algoperf_v05"
_PILOT = re.compile(r"results_(?P<model>.+)_gpu(?P<n_gpus>\d+)_(?P<gpu>[^_]+)_u(?P<users>\d+)\.csv")


def llm_pilot(members: Iterable[tuple[str, bytes]]) -> dict[str, pd.DataFrame]:
    """A line for each of LLM-Pilot's files, which have a line for each request of one load test."""
    import pandas as pd

    lines: list[dict[str, Any]] = []
    for path, content in members:
        setting = _PILOT.search(path)
        requests = csv_frame(content, path)
        answered = requests[requests["status"] == 200]
        if setting is None or answered.empty:
            continue
        seconds = (requests["end_timestamp"].max() - requests["start_timestamp"].min()) / 1000
        waits = [wait for text in answered["latency_ms_per_token"] for wait in json.loads(text)[1:]]
        line = {
            "ok": len(answered),
            "throughput": answered["n_output_tokens"].sum() / seconds,
            "itl_ms": np.median(waits),
            "latency_p95_ms": answered["latency_ms"].quantile(0.95),
        }
        lines.append(line | {k: int(v) if v.isdecimal() else v for k, v in setting.groupdict().items()})
    return {"llm_pilot.csv": pd.DataFrame(lines)}


_LOGGED = re.compile(rb"^:::MLLOG (\{.*\})\s*$", re.MULTILINE)
_STEP = re.compile(rb"step:(\d{1,15})/\d+ val_loss:([0-9.]+)")


def mlperf(members: Iterable[tuple[str, bytes]]) -> dict[str, pd.DataFrame]:
    """MLPerf's logs: a line for each training, and a line for each evaluation."""
    import pandas as pd

    runs: list[dict[str, Any]] = []
    evaluations: list[dict[str, Any]] = []
    for path, content in members:
        events = [json.loads(text) for text in _LOGGED.findall(content)]
        starts = [event["time_ms"] for event in events if event["key"] == "run_start"]
        ends = [event for event in events if event["key"] == "run_stop"]
        plain = {e["key"]: e["value"] for e in events if isinstance(e["value"], int | float | str)}
        own = [
            {
                "file": path,
                "samples": event["metadata"]["samples_count"],
                "eval_loss": event["value"],
                "seconds": (event["time_ms"] - starts[0]) / 1000,
            }
            for event in events
            if event["key"] == "eval_accuracy" and starts
        ]
        reached = bool(ends) and ends[-1]["metadata"].get("status") == "success" and bool(own)
        run = {
            **plain,
            "file": path,
            "bench": path.split("/")[-2],
            "samples": ends[-1]["metadata"].get("samples_count", own[-1]["samples"]) if reached else np.nan,
            "final": own[-1]["eval_loss"] if reached else np.nan,
            "minutes": (ends[-1]["time_ms"] - starts[0]) / 60000 if reached else np.nan,
        }
        runs.append(run)
        evaluations += own
    return {"runs.csv": pd.DataFrame(runs), "curves.csv": pd.DataFrame(evaluations)}


def nanogpt(members: Iterable[tuple[str, bytes]]) -> dict[str, pd.DataFrame]:
    """The evaluations in the logs of modded-nanogpt. A log may hold several trainings, each from step 0."""
    import pandas as pd

    found = ((path, *pair) for path, content in members for pair in _STEP.findall(content))
    lines = [(path, int(step), float(loss)) for path, step, loss in found]
    return {"curves.csv": pd.DataFrame(lines, columns=["file", "step", "val_loss"])}


def peft(members: Iterable[tuple[str, bytes]]) -> dict[str, pd.DataFrame]:
    """PEFT's results: a line for each recipe, and a line for each evaluation. The last is that of test."""
    import pandas as pd

    runs: list[dict[str, Any]] = []
    evaluations: list[dict[str, Any]] = []
    for path, content in members:
        result = parse_json(content, path)
        about, trained = result["run_info"], result["train_info"]
        name, settings = about["experiment_name"], about["peft_config"] or {"peft_type": "full"}
        run = {
            "name": name,
            "peft_type": settings["peft_type"],
            "lr": about["train_config"]["optimizer_kwargs"]["lr"],
            "params_trainable": trained["num_trainable_params"],
            "file_size": trained["file_size"],
            # Earlier versions wrote about CUDA only.
            "mem_max": trained.get("accelerator_memory_max", trained.get("cuda_memory_max")),
            "time": trained["train_time"],
            "test_accuracy": trained["metrics"][-1].get("test accuracy", np.nan),
        }
        runs.append(run)
        evaluations += [{"name": name, **line} for line in trained["metrics"]]
    return {"MetaMathQA.csv": pd.DataFrame(runs), "MetaMathQA_curves.csv": pd.DataFrame(evaluations)}


def marin(members: Iterable[tuple[str, bytes]]) -> dict[str, pd.DataFrame]:
    """Marin's results: each optimizer's best setting, and the settings that differ in one value."""
    import pandas as pd

    lines: list[dict[str, Any]] = []
    for path, content in members:
        result = parse_json(content, path)
        best = {"optimizer": path.split("/")[0], **result["best_config"]}
        lines.append({**best, "eval_loss": result["baseline"]["loss"]})
        lines += [
            {**best, change["param"]: change["value"], "eval_loss": change["loss"]}
            for change in result["ablations"]
        ]
    return {"marin-optimizers-130m.csv": pd.DataFrame(lines)}


def steplaw(members: Iterable[tuple[str, bytes]]) -> dict[str, pd.DataFrame]:
    """Step Law's files with the true learning rates, and for each training the names of its own table.

    A file has learning rates such as 0.000345 and 0.0003453, which are the same rate.
    """
    frames = {}
    for name, content in members:
        frame = csv_frame(content, name)
        if "moe_name" in frame:
            active, kind = frame["Na"], frame["moe_name"]
            size = kind.str.replace("in", " in ")
        else:
            active, kind = frame["N"], (frame["N"] / 1e6).map("{:.0f}M".format)
            size = kind
        duration = (frame["D"] / 1e9).map("{:g}B".format)
        frames[name] = frame.assign(
            learning_rate=true_rates(frame["lr"].to_numpy(np.float64)),
            flops=6 * active.astype(np.float64) * frame["D"],
            token=frame["D"],
            training=frame.index,
            size=size,
            duration=duration,
            table="steplaw-" + kind.str.lower() + "-" + duration.str.lower(),
        )
    return frames


def true_rates(printed: Floats) -> Floats:
    """Learning rates as the powers of the square root of 2 that they stand for, to four digits.

    Raises InputError if a rate is not such a power.
    """
    halves = np.round(2 * np.log2(printed))
    if (np.abs(2 * np.log2(printed) - halves) > _ROUNDING).any():
        raise InputError("a learning rate is not a power of the square root of 2.")
    return np.array([float(f"{rate:.4g}") for rate in 2 ** (halves / 2)])


def taskset(members: Iterable[tuple[str, bytes]]) -> dict[str, pd.DataFrame]:
    """TaskSet's trainings by file, and a line for each checkpoint of all files.

    If one loss of a checkpoint is NaN, the training has diverged, whatever the other losses are.
    """
    import pandas as pd

    frames, first = {}, 0
    curves = []
    for name, content in members:
        found = pd.json_normalize(parse_json(content.replace(b"NaN", b"null"), name))
        found = found.rename(columns=lambda key: key.removeprefix("hp."))
        found.index += first
        first += len(found)
        losses = {f"{part}_loss": found[f"{part}.loss"] for part in ("valid", "test", "train")}
        ends = {loss: lists.str[-1].astype(np.float64) for loss, lists in losses.items()}
        betas = {f"one_minus_{beta}": 1 - found[beta] for beta in ("beta1", "beta2")}
        frames[name] = found.assign(training=found.index, **ends, **betas)
        lines = pd.DataFrame(losses).explode([*losses]).astype(np.float64)
        lines[lines.isna().any(axis=1)] = np.nan
        curves.append(lines.assign(training=lines.index, update=200 * lines.groupby(level=0).cumcount()))
    return {**frames, "curves": pd.concat(curves)}


def algoperf(members: Iterable[tuple[str, bytes]]) -> dict[str, pd.DataFrame]:
    """AlgoPerf's trainings and their evaluations, of which a training may have none."""
    import pandas as pd

    runs: list[dict[str, Any]] = []
    curves = []
    for path, content in members:
        submission, study, workload, trial, file = path.split("/")
        about = {"submission": submission, "workload": workload, "study": study, "trial": trial}
        if file == "hparams.json":
            given = parse_json(content.replace(b"NaN", b"null"), path)
            runs.append(about | {"board": _BOARD} | {f"hp.{key}": value for key, value in given.items()})
        elif content.strip():
            curves.append(csv_frame(content, path).assign(id="/".join([_BOARD, *about.values()])))
    return {"runs.csv": pd.DataFrame(runs), "curves.parquet": pd.concat(curves)}


Reader = Callable[[Iterable[tuple[str, bytes]]], "dict[str, pd.DataFrame]"]
_OF_FILES = (llm_pilot, mlperf, nanogpt, peft, marin, algoperf, steplaw, taskset, nas_bench_nlp, nmtlc)
READERS: dict[str, Reader] = {reader.__name__: reader for reader in _OF_FILES}
"""The readers by name."""
