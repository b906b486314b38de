from __future__ import annotations

import pytest

from hpobench_nmt.benchmarking.call import benchmark


@pytest.fixture
def multi(toy):
    return benchmark(toy, ["RS", "BO_M_std"], objectives=["bleu", "seconds"], trials=12)
