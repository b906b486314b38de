"""What several tests of table folders share."""

import pytest

from hpobench_nmt.lookup.disk.folder import save_folder


@pytest.fixture
def folder(tmp_path, toy, again):
    """An installed table with replicates, a spec and a ledger."""
    table = toy.with_replicates(again(toy, [0, 1]))
    save_folder(table, tmp_path / "toy", {"spec.toml": b"spec", "ledger.jsonl": b"ledger"})
    return tmp_path / "toy"
