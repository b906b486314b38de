"""A run of `train`: its devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.ledgers.ledger import Ledger
from hpobench_nmt.runner.specs.spec import Spec


def gpus_a_training(spec: Spec) -> int:
    """The most GPUs that one training of a spec uses: the setting `workers` of Sockeye's family."""
    return int(max(spec.grid.get("workers", (spec.fixed.get("workers", 1),))))


def refuse_other_device(path: Path, ledger: Ledger, devices: Sequence[str]) -> None:
    """Raise InputError if "auto" has found another kind of device than the ledger's rows were trained on.

    Times measured on different kinds of devices cannot be compared, and neither can the models that rows of
    dynamic evaluation share.

    Args:
        path: the ledger's file.
        ledger: its content.
        devices: the devices found.
    """
    now = devices[0].partition(":")[0]
    for record in ledger.records:
        if record.device and not record.device.startswith(now):
            raise InputError(
                f"{path}: has rows trained on {record.device!r}, and --device auto finds {now!r}. "
                f"To mix them in one table all the same, say --device {now}."
            )
