"""The throughput of several trainings of `marian` together on one GPU, against one training alone.

    python benchmarks/speed/jobs_on_a_gpu.py [--jobs 1,8,16] [--device cuda] [--seconds 3]

Each process trains a model of two layers of width 128 on 4,000 pairs of random sentences, in batches of 4,096
subwords, in tf32. After 200 updates each, all processes train together for some seconds, then decode 500
sentences repeatedly. The output has the updates and the decoding steps per second of all processes. Run it
once without and once with NVIDIA's multi-process service (`nvidia-cuda-mps-control -d`).
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from typing import Any

import torch
from translation_graphs import training

from hpobench_nmt.runner.torch_training.clock import seconds
from hpobench_nmt.runner.torch_training.repeatable import set_up

_WORDS, _WARM_UP, _SENTENCES, _STEPS = 4096, 200, 500, 60


def job(device: str, lasting: float, ready: Any, told: Any) -> None:
    """Train, then decode, and put the updates and the decoding steps per second into a queue."""
    where, here = set_up(device), device == "cpu"
    made = training(2, 128, _WORDS, where)

    def update() -> int:
        made.update()
        return 1

    source = torch.randint(4, 1900, (2 if here else _SENTENCES, 30), device=where)

    def decode() -> int:
        with torch.no_grad():
            made.model.eval().generate(
                input_ids=source, num_beams=5, do_sample=False, min_new_tokens=_STEPS, max_new_tokens=_STEPS
            )
        return _STEPS

    for _ in range(2 if here else _WARM_UP):
        update()
    for function in (update, decode):
        seconds(where)  # waits for pending work
        ready.wait()
        done, started = 0, time.perf_counter()
        while time.perf_counter() - started < lasting:
            done += function()
            seconds(where)
        told.put((function.__name__, done / (time.perf_counter() - started)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", default="1,8,16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    for count in map(int, arguments.jobs.split(",")):
        ready, told = spawn.Barrier(count), spawn.Queue()
        given = arguments.device, arguments.seconds, ready, told
        processes = [spawn.Process(target=job, args=given) for _ in range(count)]
        for process in processes:
            process.start()
        found = [told.get() for _ in range(2 * count)]
        for process in processes:
            process.join()
        speeds = {kind: sum(speed for name, speed in found if name == kind) for kind in ("update", "decode")}
        print(f"{count} jobs: {speeds['update']:.0f} updates/s, {speeds['decode']:.0f} steps of decoding/s")


if __name__ == "__main__":
    main()
