"""A few mutated inputs in processes of their own, which must end as in this process."""

import subprocess
import sys

import numpy as np
import pytest
from fuzzing.mutations import mutate_bytes

INPUTS = {
    "work/toy.toml": ("tables", "add", "toy.csv"),
    "work/toy.csv": ("tables", "add", "toy.csv"),
    "home/tables/toy/datasheet.toml": ("tables", "show", "toy"),
    "work/mine.toml": ("run", "mine.toml", "--jobs", "1", "--quiet", "--out", "results/x"),
    "work/results/r/manifest.json": ("score", "results/r"),
    "work/results/r/observations/toy/RS.parquet": ("score", "results/r"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_a_process_of_its_own_ends_the_same(empty, world, name):
    files = {k: v for kind in ("table", "source", "suite", "results") for k, v in world[kind].items()}
    rng = np.random.default_rng([41, len(name)])
    empty.write(files)
    content = files[name]
    here = None
    while here is None or here.code == 0:  # until a mutation is refused
        empty.mutated(name, mutate_bytes(rng, content))
        here = empty.run(*INPUTS[name], into=["home/tables", "work/results"])
    done = subprocess.run(
        [sys.executable, "-m", "hpobench_nmt", *INPUTS[name]], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, here.out, here.err)
