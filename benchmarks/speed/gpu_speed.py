"""Time of a training update and of dynamic evaluation on a GPU, in models of the size of their papers.

    pip install '.[train]'
    python benchmarks/speed/gpu_speed.py [NAME ...]

An update is forward, backward, clipping and the optimiser's step. It is timed in each precision, and also
compiled or as a CUDA graph if the family supports it: the median of 20 updates, after 3. Dynamic evaluation
(RMS with an RMS prior) reads segments of 5 tokens of one stream. Words are random, because the time does not
depend on them.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np
import torch

from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.lm.dynamic import UpdateRule, adapting_reader, gradient_rms
from hpobench_nmt.runner.lm.gradient import GraphedGradient, gradient
from hpobench_nmt.runner.lm.language_model import pieces, streams
from hpobench_nmt.runner.lm.scanned_cells import compiled_steps
from hpobench_nmt.runner.torch_training.memory import parameter_count
from hpobench_nmt.runner.torch_training.precision import loss_scaler, rounded_products
from hpobench_nmt.runner.torch_training.repeatable import set_up

UPDATES, SEGMENTS, FIRST = 20, 100, 3
# By name: the family, the vocabulary, streams, steps, and settings.
MODELS: dict[str, tuple[str, int, int, int, dict[str, Any]]] = {
    "AWD-LSTM, 3 layers": ("awd-lstm", 10_000, 20, 70, {}),
    "QRNN, 4 layers": ("awd-lstm", 33_278, 40, 140, {"cell": "qrnn", "layers": 4, "hidden_size": 1550}),
    "Melis LSTM, depth 4": ("melis", 10_000, 64, 35, {"depth": 4, "budget": 10_000_000}),
    "RHN, depth 5": ("melis", 10_000, 64, 35, {"cell": "rhn", "depth": 5, "budget": 10_000_000}),
    "mLSTM": ("mlstm", 50, 128, 200, {}),
    "GPT, 4 blocks": ("gpt", 512, 8, 64, {"depth": 4, "width": 128, "heads": 4, "context": 64}),
    "GPT, 12 blocks": ("gpt", 32_000, 16, 512, {"depth": 12, "width": 768, "heads": 12, "context": 512}),
}


class Update:
    """A model and its optimiser, which are trained on random words."""

    def __init__(
        self, name: str, precision: str = "fp32", compile: bool = False, graph: bool = False
    ) -> None:
        family_name, vocabulary, self.streams, self.steps, given = MODELS[name]
        architecture = load_family(family_name).architecture
        assert architecture is not None
        settings = load_family(family_name).settings(**given)
        self.device = set_up("cuda")
        draws = torch.Generator(self.device).manual_seed(1)
        self.model = architecture.build(settings, vocabulary, "word", draws).train()
        self.optimiser, self.schedule = architecture.course(settings, "word", self.model)
        self.words = np.random.default_rng(0).integers(vocabulary, size=self.streams * (self.steps + 1))
        self.piece = streams(torch.from_numpy(self.words), self.streams).to(self.device)
        self.precision, self.compile = precision, compile
        self.scaler = loss_scaler(precision, self.device)
        states = (self.model.initial_state(self.streams),)
        self.graph = None
        if graph:
            self.graph = GraphedGradient(self.model, self.piece, states, precision, self.scaler)

    def __call__(self) -> None:
        """One update."""
        with compiled_steps(self.compile), rounded_products(self.precision, self.device):
            if self.graph:
                self.graph(self.piece)
            else:
                state = (self.model.initial_state(self.streams),)
                gradient(self.model, self.piece, state, self.precision, self.scaler)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.schedule.clip or 1.0)
        self.optimiser.step(1.0)


def milliseconds(update: Update) -> float:
    """The median time of an update."""
    times = []
    for _ in range(FIRST + UPDATES):
        torch.cuda.synchronize()
        started = time.perf_counter()
        update()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return 1e3 * statistics.median(times[FIRST:])


def busy(update: Update) -> tuple[int, float]:
    """The number of kernels of an update, and the milliseconds for which they keep the GPU busy."""
    profiler: Any = torch.profiler
    kinds: Any = torch.autograd
    for _ in range(FIRST):
        update()
    torch.cuda.synchronize()
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
        update()
        torch.cuda.synchronize()
    kernels = [e for e in profile.key_averages() if e.device_type == kinds.DeviceType.CUDA]
    return sum(e.count for e in kernels), sum(e.self_device_time_total for e in kernels) / 1e3


def dynamic_rate(update: Update) -> float:
    """Tokens per second of dynamic evaluation."""
    model, rule = update.model.eval(), UpdateRule("rms-rms-prior", 1e-4, 5, 0.005, 1e-4)
    tokens = update.words[: 5 * (SEGMENTS + FIRST) + 1]
    with adapting_reader(model, rule, gradient_rms(model, update.words[:200], 2, 5)) as reader:
        for number, piece in enumerate(pieces(model, tokens, 1, 5)):
            if number == FIRST:
                torch.cuda.synchronize()
                started = time.perf_counter()
            reader.read(piece)
    torch.cuda.synchronize()
    return 5 * SEGMENTS / (time.perf_counter() - started)


def main() -> None:
    """Print a line for each model."""
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; milliseconds of an update")
    for name in sys.argv[1:] or MODELS:
        family = MODELS[name][0]
        found = {chosen: milliseconds(Update(name, chosen)) for chosen in ("fp32", "tf32", "bf16")}
        if family == "gpt":
            graphed = {
                f"{chosen} as a graph": Update(name, chosen, graph=True) for chosen in ("fp32", "bf16")
            }
            found |= {chosen: milliseconds(update) for chosen, update in graphed.items()}
        if family in ("melis", "mlstm"):
            found["fp32 compiled"] = milliseconds(Update(name, compile=True))
        plain = Update(name)
        kernels, on_gpu = busy(plain)
        rate, size = dynamic_rate(plain), parameter_count(plain.model) / 1e6
        said = ", ".join(f"{chosen} {value:.1f}" for chosen, value in found.items())
        print(f"{name} ({size:.1f}M parameters): {said}; dynamic {rate:.0f} tokens/s")
        print(
            f"    {kernels} kernels an update (fp32), which keep the GPU busy for {on_gpu:.1f} ms", flush=True
        )


if __name__ == "__main__":
    main()
