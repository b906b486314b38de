"""Results of one and of two objectives, which no test changes."""

import dataclasses

import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark


@pytest.fixture(scope="session")
def single(toy_tables):
    toy = hb.load_table(toy_tables / "tables" / "toy")
    other = dataclasses.replace(toy, name="other", configs=toy.configs[:30], values=toy.values[5:35])
    return benchmark([toy, other], ["RS", "BO_EI_M_std", "GB_EIF_M"], trials=12)


@pytest.fixture(scope="session")
def multi(toy_tables):
    toy = hb.load_table(toy_tables / "tables" / "toy")
    return benchmark(toy, ["RS", "BO_M_std", "NSGA2"], objectives=["bleu", "seconds"], trials=12)
