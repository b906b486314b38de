"""Operations of a training update and of a dynamic segment on a GPU, counted without a GPU.

    pip install '.[train,dev]'
    python benchmarks/speed/operations.py [NAME ...]

Models are small, because the number of operations does not depend on their width. Sequences are as long as in
real trainings. tests/pretend/pretend_accelerator.py defines what is counted. Steps are not compiled.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "pretend"))

from pretend_accelerator import accelerator, counted  # type: ignore[import-not-found]

from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.lm.dynamic import UpdateRule, adapting_reader, gradient_rms
from hpobench_nmt.runner.lm.gradient import gradient
from hpobench_nmt.runner.lm.language_model import pieces, streams
from hpobench_nmt.runner.torch_training.precision import loss_scaler

WORDS = 40
AWD = {"embedding_size": 12, "hidden_size": 16}
MODELS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "AWD-LSTM, 3 layers": ("awd-lstm", 70, AWD),
    "QRNN, 4 layers": ("awd-lstm", 70, {**AWD, "cell": "qrnn", "layers": 4}),
    "Melis LSTM, depth 4": ("melis", 35, {"depth": 4, "budget": 19816}),
    "RHN, depth 5": ("melis", 35, {"cell": "rhn", "depth": 5, "budget": 20242}),
    "NAS, depth 2": ("melis", 35, {"cell": "nas", "depth": 2, "budget": 21040}),
    "mLSTM": ("mlstm", 200, {"hidden_size": 16, "embedding_size": 8}),
    "GPT, 2 blocks": ("gpt", 64, {"depth": 2, "width": 16, "heads": 2, "context": 64}),
}


def operations(family_name: str, steps: int, given: dict[str, Any]) -> tuple[int, int]:
    """Numbers of operations of an update, and of a segment of 5 tokens."""
    family, tokens = load_family(family_name), np.random.default_rng(0).integers(WORDS, size=4 * (steps + 1))
    assert family.architecture is not None
    settings = family.settings(**given)
    with accelerator() as device:
        generator = torch.Generator(device).manual_seed(1)
        model = family.architecture.build(settings, WORDS, "word", generator)
        optimiser, schedule = family.architecture.course(settings, "word", model)
        piece = streams(torch.from_numpy(tokens), 4).to(device)
        scaler = loss_scaler("fp32", device)
        for _ in range(2):  # the optimiser makes its state in the first update
            with counted() as update:
                gradient(model.train(), piece, (model.initial_state(4),), "fp32", scaler)
                torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
                optimiser.step(1.0)
        rule = UpdateRule("rms-rms-prior", 0.01, 5, 0.02, 0.001)
        with adapting_reader(model, rule, gradient_rms(model, tokens[:24], 2, 5)) as reader:
            for part in pieces(model, tokens[:11], 1, 5):
                with counted() as segment:
                    reader.read(part)
    return update.total, segment.total


def main() -> None:
    """Print both numbers of each model."""
    for name in sys.argv[1:] or MODELS:
        update, segment = operations(*MODELS[name])
        print(f"{name} ({MODELS[name][1]} steps): {update} an update, {segment} a segment", flush=True)


if __name__ == "__main__":
    main()
