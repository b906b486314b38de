"""Readers of collections whose tables are made of many files: logs, or results of single trainings.

A reader takes the names and contents of the files, one after another, and returns the frames that a
declaration names, with a line for each training or checkpoint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.core.system.files import parse_json
from hpobench_nmt.lookup.collections.collection import csv_frame

if TYPE_CHECKING:  # pandas is slow to import
    import pandas as pd

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
        about = {k: int(v) if v.isdecimal() else v for k, v in setting.groupdict().items()}
        measured = {
            "requests": len(requests),
            "ok": len(answered),
            "throughput": answered["n_output_tokens"].sum() / seconds,
            "itl_ms": np.median(waits),
            "latency_p95_ms": answered["latency_ms"].quantile(0.95),
            "seconds": seconds,
        }
        lines.append({**about, **measured})
    return {"llm_pilot.csv": pd.DataFrame(lines)}


_LOGGED = re.compile(rb"^:::MLLOG (\{.*\})\s*$", re.MULTILINE)
_STEP = re.compile(rb"step:(\d+)/\d+ val_loss:([0-9.]+)")


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
        found = {
            "bench": path.split("/")[-2],
            "samples": ends[-1]["metadata"].get("samples_count", own[-1]["samples"]) if reached else np.nan,
            "final": own[-1]["eval_loss"] if reached else np.nan,
            "minutes": (ends[-1]["time_ms"] - starts[0]) / 60000 if reached else np.nan,
        }
        runs.append({**plain, "file": path, **found})
        evaluations += own
    return {"runs.csv": pd.DataFrame(runs), "curves.csv": pd.DataFrame(evaluations)}


def nanogpt(members: Iterable[tuple[str, bytes]]) -> dict[str, pd.DataFrame]:
    """The evaluations in the logs of modded-nanogpt. A log may hold several trainings, each from step 0."""
    import pandas as pd

    lines = [
        (path, int(step), float(loss)) for path, content in members for step, loss in _STEP.findall(content)
    ]
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


READERS: Mapping[str, Callable[[Iterable[tuple[str, bytes]]], dict[str, pd.DataFrame]]] = {
    "llm_pilot": llm_pilot,
    "mlperf": mlperf,
    "nanogpt": nanogpt,
    "peft": peft,
    "marin": marin,
}
"""The readers by name."""
