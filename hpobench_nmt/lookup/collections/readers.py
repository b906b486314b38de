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


READERS: Mapping[str, Callable[[Iterable[tuple[str, bytes]]], dict[str, pd.DataFrame]]] = {
    "llm_pilot": llm_pilot,
}
"""The readers by name."""
