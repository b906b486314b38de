"""Training and dynamic evaluation against plain torch, and a comparison of the update rules.

    pip install 'hpobench-nmt[train]'
    python benchmarks/speed/language_models.py speed [--vocabulary 10000 --hidden 400 --layers 3]
    python benchmarks/speed/language_models.py losses
    python benchmarks/speed/language_models.py memory
    python benchmarks/speed/language_models.py merit [SPEC.toml]

speed: words per second of processor time on one core, the best of several turns. The contenders take turns,
so that other load affects them equally. Training reads batches of 20 streams and 70 steps. A step is forward,
backward, clipping and update. The AWD-LSTM has all of its dropout, AR/TAR and averaging, and plain torch has
none of it. Dynamic evaluation (RMS with an RMS prior, segments of 5) is compared with forward and backward
passes over the same segments without the update.

losses: processor time of dynamic evaluation that saves the loss of every token in a file, as `train --keep`
does, against dynamic evaluation that computes only the mean loss; in turns.

memory: the peak memory of dynamic evaluation, as a multiple of the parameters (Linux).

merit: each rule of Table 1 of Krause et al. (2018) on the model of a spec of family dynamic-evaluation. The
learning rate, decay and epsilon of each rule are tuned on the first dev tokens. The model is the runner's own
if it exists; otherwise it is trained first (a quarter of an hour). The rest takes eight minutes.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from hpobench_nmt.lookup.catalogue import shipped_folder
from hpobench_nmt.lookup.user_folders import training_cache
from hpobench_nmt.runner.corpora import load_corpus
from hpobench_nmt.runner.families.dynamic_evaluation import FAMILY, trained_model
from hpobench_nmt.runner.family import Job
from hpobench_nmt.runner.lm.awd_lstm_model import AWDLSTM
from hpobench_nmt.runner.lm.awd_lstm_settings import ModelSettings
from hpobench_nmt.runner.lm.dynamic import UpdateRule, adapting_reader, dynamic_nll, gradient_rms
from hpobench_nmt.runner.lm.language_model import detach, pieces
from hpobench_nmt.runner.lm.measure import tuned_rule
from hpobench_nmt.runner.lm.ntasgd import NTASGD
from hpobench_nmt.runner.lm.softmax import linear_cross_entropy
from hpobench_nmt.runner.lm.static import perplexity, static_nll
from hpobench_nmt.runner.specs.spec_file import load_spec
from hpobench_nmt.runner.torch_training.memory import parameter_count
from hpobench_nmt.runner.torch_training.precision import products_in
from hpobench_nmt.runner.torch_training.repeatable import set_up

BATCH, STEPS, SEGMENT = 20, 70, 5
TRAINING_BAR, DYNAMIC_BAR, MEMORY_BAR, LOSSES_BAR = 0.7, 0.5, 5.0, 0.05
TURNS, LOSSES_TURNS = 5, 20
EPSILONS = (1e-4, 3e-4, 1e-3, 3e-3)
REGULARISED = {
    "dropout_input": 0.4,
    "dropout_hidden": 0.25,
    "dropout_output": 0.4,
    "dropout_embedding": 0.1,
    "weight_drop": 0.5,
    "alpha": 2.0,
    "beta": 1.0,
}
RULE = UpdateRule("rms-rms-prior", 1e-4, SEGMENT, 0.005, 1e-4)


class Plain(torch.nn.Module):
    """Torch's own LSTM layers of the same sizes, with tied embeddings and no regularisation."""

    def __init__(self, vocabulary: int, sizes: list[int]) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, sizes[0])
        self.bias = torch.nn.Parameter(torch.zeros(vocabulary))
        self.lstms = torch.nn.ModuleList(torch.nn.LSTM(i, o) for i, o in itertools.pairwise(sizes))
        torch.nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

    def forward(self, tokens: torch.Tensor, states: list[Any]) -> tuple[torch.Tensor, list[Any]]:
        x, after = self.embedding(tokens), []
        for lstm, state in zip(self.lstms, states, strict=True):
            x, state = lstm(x, state)
            after.append(state)
        return x.reshape(-1, x.shape[-1]), after

    def loss(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = torch.nn.functional.linear(hidden, self.embedding.weight, self.bias)
        return cross_entropy(logits, targets)


def awd_lstm(arguments: argparse.Namespace, **rates: Any) -> AWDLSTM:
    sizes = {
        "layers": arguments.layers,
        "embedding_size": arguments.embedding,
        "hidden_size": arguments.hidden,
    }
    settings = ModelSettings(**{**sizes, **dict.fromkeys(REGULARISED, 0.0), **rates})
    return AWDLSTM(arguments.vocabulary, settings, torch.Generator().manual_seed(1))


def words(arguments: argparse.Namespace, n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Random words with Zipf's frequencies."""
    p = 1.0 / np.arange(1, arguments.vocabulary + 1)
    return np.random.default_rng(0).choice(arguments.vocabulary, size=n, p=p / p.sum()).astype(np.int64)


def take_turns(contenders: dict[str, Callable[[], int]]) -> dict[str, float]:
    """Words per second of each contender in its best turn; a contender returns the number of words read."""
    best = dict.fromkeys(contenders, 0.0)
    for turn in range(TURNS + 1):
        for name, run in contenders.items():
            started = time.process_time()
            read = run()
            rate = read / (time.process_time() - started)
            if turn:  # the first one loads code
                best[name] = max(best[name], rate)
    return best


def training_contenders(arguments: argparse.Namespace) -> dict[str, Callable[[], int]]:
    data = torch.from_numpy(words(arguments, BATCH * (STEPS + 1))).view(STEPS + 1, BATCH)
    inputs, targets = data[:-1], data[1:].reshape(-1)

    def plain(chunked: bool) -> Callable[[], int]:
        sizes = [arguments.embedding, *[arguments.hidden] * (arguments.layers - 1), arguments.embedding]
        model = Plain(arguments.vocabulary, sizes)
        descent = torch.optim.SGD(model.parameters(), lr=1.0)
        states = [tuple(torch.zeros(1, BATCH, n) for _ in range(2)) for n in sizes[1:]]

        def step() -> int:
            descent.zero_grad()
            hidden, _ = model(inputs, states)
            loss = (
                linear_cross_entropy(hidden, model.embedding.weight, model.bias, targets)
                if chunked
                else model.loss(hidden, targets)
            )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            descent.step()
            return BATCH * STEPS

        return step

    def ours(precision: str) -> Callable[[], int]:
        model = awd_lstm(arguments, **REGULARISED)
        parameters = list(model.parameters())
        optimiser = NTASGD(parameters, learning_rate=1.0, weight_decay=1.2e-6, averaging_window=0, patience=5)
        for loss in (1.0, 2.0):
            optimiser.checked(loss)  # so that it starts averaging
        state = model.initial_state(BATCH)

        def step() -> int:
            for p in parameters:
                p.grad = None
            with products_in(precision, inputs.device):
                hidden, _ = model(inputs, state)
                flat = hidden.reshape(len(targets), -1)
                loss = linear_cross_entropy(flat, model.output_weight, model.output_bias, targets)
                loss = loss + model.regularisation()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 0.25)
            optimiser.step(1.0)
            return BATCH * STEPS

        return step

    return {
        "plain nn.LSTM, F.cross_entropy": plain(chunked=False),
        "plain nn.LSTM, our softmax": plain(chunked=True),
        "AWD-LSTM in bf16": ours("bf16"),
        "AWD-LSTM": ours("fp32"),
    }


def dynamic_contenders(arguments: argparse.Namespace) -> dict[str, Callable[[], int]]:
    text = words(arguments, 501)
    column = torch.from_numpy(text)[:, None]
    sizes = [arguments.embedding, *[arguments.hidden] * (arguments.layers - 1), arguments.embedding]
    plain = Plain(arguments.vocabulary, sizes)
    model = awd_lstm(arguments).eval()
    rms = gradient_rms(model, text, 5, SEGMENT)

    def plain_passes() -> int:
        states: Any = [tuple(torch.zeros(1, 1, n) for _ in range(2)) for n in sizes[1:]]
        for start in range(0, 500, SEGMENT):
            plain.zero_grad()
            hidden, states = plain(column[start : start + SEGMENT], [detach(s) for s in states])
            plain.loss(hidden, column[start + 1 : start + 1 + SEGMENT, 0]).backward()
        return 500

    def our_passes() -> int:
        state: Any = model.initial_state(1)
        for start in range(0, 500, SEGMENT):
            model.zero_grad()
            hidden, state = model(column[start : start + SEGMENT], detach(state))
            targets = column[start + 1 : start + 1 + SEGMENT, 0]
            linear_cross_entropy(hidden[:, 0], model.output_weight, model.output_bias, targets).backward()
        return 500

    return {
        "forward and backward, plain nn.LSTM": plain_passes,
        "forward and backward, AWD-LSTM": our_passes,
        "dynamic evaluation (RMS, segments of 5)": lambda: len(dynamic_nll(model, text, RULE, rms)),
    }


def speed(arguments: argparse.Namespace) -> None:
    print(f"{parameter_count(awd_lstm(arguments, **REGULARISED)):,} parameters")
    for contenders, reference, bar in (
        (training_contenders(arguments), (0, 1), TRAINING_BAR),
        (dynamic_contenders(arguments), (0, 1), DYNAMIC_BAR),
    ):
        rates = take_turns(contenders)
        names = list(rates)
        for name, rate in rates.items():
            print(f"{name:45} {rate:8,.0f} words/s")
        for i in reference:
            print(f"  {rates[names[-1]] / rates[names[i]]:.2f} of {names[i]} (at least {bar})")


def losses(arguments: argparse.Namespace) -> None:
    text = words(arguments, 301)
    model = awd_lstm(arguments).eval()
    rms = gradient_rms(model, text, 5, SEGMENT)

    def mean_alone() -> int:
        total = torch.zeros(())
        with adapting_reader(model, RULE, rms) as reader:
            for piece in pieces(model, text, 1, SEGMENT):
                total += reader.read(piece).sum()
        return len(text) - 1 if torch.isfinite(total) else 0

    def every_token() -> int:
        found = dynamic_nll(model, text, RULE, rms)
        with tempfile.TemporaryFile() as file:
            np.savez(file, dev_dynamic=found)
        return len(found)

    def timed(run: Callable[[], int]) -> float:
        started = time.process_time()
        read = run()
        return (time.process_time() - started) / read

    pairs = []
    for turn in range(LOSSES_TURNS + 1):
        order = (mean_alone, every_token) if turn % 2 else (every_token, mean_alone)
        taken = {run: timed(run) for run in order}
        pairs.append((taken[mean_alone], taken[every_token]))
    ratio = float(np.median([every / mean for mean, every in pairs[1:]]))  # the first one loads code
    names = ("mean loss alone", "the loss of every token, kept")
    for name, each in zip(names, np.median(pairs[1:], axis=0), strict=True):
        print(f"{name:45} {1 / each:8,.0f} words/s")
    print(f"  {ratio - 1:+.1%} of the time, median of {LOSSES_TURNS} turns (at most {LOSSES_BAR:+.0%})")


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(re.search(r"VmHWM:\s*(\d+)", status).group(1))  # type: ignore[union-attr]


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def memory(arguments: argparse.Namespace) -> None:
    text = words(arguments, 201)
    small = argparse.Namespace(vocabulary=100, embedding=8, hidden=8, layers=2)
    tiny = awd_lstm(small)
    dynamic_nll(tiny, text[:50] % 100, RULE, gradient_rms(tiny, text % 100, 5, SEGMENT))  # loads code
    model = awd_lstm(arguments)
    size = 4 * parameter_count(model)
    static_nll(model, text)
    gc.collect()
    forget_peak()
    before = peak_bytes()
    rms = gradient_rms(model, text, 5, SEGMENT)
    statistics = peak_bytes()
    forget_peak()
    dynamic_nll(model, text, RULE, rms)
    most = peak_bytes()
    print(f"parameters: {size / 1e6:.1f} MB")
    for name, peak in (("gradient statistics", statistics), ("dynamic evaluation", most)):
        print(f"{name}: {(peak - before + size) / size:.2f} times the parameters (at most {MEMORY_BAR:g})")


def merit(arguments: argparse.Namespace) -> None:
    spec = load_spec(arguments.spec)
    configuration = spec.configuration(0)
    settings = spec.settings(configuration)
    seed = spec.training_seed(configuration, 0)
    cache = training_cache()
    job = Job(settings, seed, spec.corpus, spec.base, cache, cache, "cpu")
    if spec.family.name != FAMILY.name:
        raise SystemExit(f"{arguments.spec} is of family {spec.family.name}, not {FAMILY.name}.")
    corpus: Any = load_corpus(spec.corpus, spec.base, cache)
    model, _ = trained_model(job, corpus)
    print(f"{'rule':30} {'dev':>8} {'test':>8}   tuned on {arguments.tokens} dev tokens")
    dev, test = (perplexity(static_nll(model, part)) for part in (corpus.dev, corpus.test))
    print(f"{'static':30} {dev:8.2f} {test:8.2f}")
    tuning = corpus.dev[: arguments.tokens]
    statistics = corpus.train[: settings.dynamic_statistics or None]
    for start in (
        UpdateRule("sgd", 0.1, 1),
        UpdateRule("sgd", 0.3, 5),
        UpdateRule("sgd-prior", 0.3, 5, 0.002),
        UpdateRule("rms-prior", 0.001, 5, 0.002, 1e-3),
        UpdateRule("rms-rms-prior", 0.001, 5, 0.002, 1e-3),
        UpdateRule("sparse", 0.001, 5, 0.002, 1e-3, settings.dynamic_units),
    ):
        rms = gradient_rms(model, statistics, 20, 5, start.units) if start.needs_rms else None

        def mean_nll(rule: UpdateRule, rms: Any = rms) -> float:
            return float(np.nan_to_num(dynamic_nll(model, tuning, rule, rms), nan=np.inf).mean())

        tuned = [
            tuned_rule(model, tuning, replace(start, epsilon=epsilon), rms)
            for epsilon in (EPSILONS if start.needs_rms else EPSILONS[:1])
        ]
        rule = min(tuned, key=mean_nll)
        dev, test = (perplexity(dynamic_nll(model, part, rule, rms)) for part in (corpus.dev, corpus.test))
        label = f"{rule.name}, segments of {rule.segment}"
        found = f"eta {rule.learning_rate:g}, lambda {rule.decay:g}, epsilon {rule.epsilon:g}"
        print(f"{label:30} {dev:8.2f} {test:8.2f}   {found}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for function in (speed, losses, memory):
        command = commands.add_parser(function.__name__)
        command.set_defaults(run=function)
        command.add_argument("--vocabulary", type=int, default=10_000)
        command.add_argument("--embedding", type=int, default=200)
        command.add_argument("--hidden", type=int, default=400)
        command.add_argument("--layers", type=int, default=3)
    command = commands.add_parser("merit")
    command.set_defaults(run=merit)
    command.add_argument("spec", type=Path, nargs="?", default=shipped_folder() / "sotu-dyneval/spec.toml")
    command.add_argument("--tokens", type=int, default=5000)
    arguments = parser.parse_args()
    set_up("cpu")
    arguments.run(arguments)


if __name__ == "__main__":
    main()
