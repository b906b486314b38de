"""What the tests of archives and of submissions share."""

import pytest
from small_archives import EARLY, PLAIN

import hpobench_nmt as hb
from hpobench_nmt.arena.archive import archive_bytes, read_archive


@pytest.fixture(scope="module")
def runs():
    """Results of two tracks."""
    return {
        "plain": [hb.run(**PLAIN, methods=["RS", "BO_EI_M_std"])],
        "early": [hb.run(**EARLY, methods=["RS", "SH", "ASHA"])],
    }


@pytest.fixture(scope="module")
def archive(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "lm-2026.parquet"
    path.write_bytes(archive_bytes(runs))
    return read_archive(path)
