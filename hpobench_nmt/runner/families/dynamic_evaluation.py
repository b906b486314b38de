"""Settings of dynamic evaluation, or of a neural cache, on one trained AWD-LSTM (Krause et al. 2018).

A configuration costs passes over dev and test, not a training. The model is trained once for each corpus, set
of model settings and seed. The cache keeps it, its static perplexities, and the gradient statistics MS_g of
each batch size and segment length.

The rest is deterministic, so the seed of a row is the seed of its model: model_seed in the table's own rows,
and the following numbers in replicates. All configurations of a replicate have the same model.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hpobench_nmt.core.arrays import Floats, Tokens
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.runner.disk.locks import key_of, make_once
from hpobench_nmt.runner.families.awd_lstm import ARCHITECTURE, check
from hpobench_nmt.runner.families.shared_models import shared_model
from hpobench_nmt.runner.family import Family, Job, Outcome
from hpobench_nmt.runner.lm.awd_lstm_settings import ModelSettings
from hpobench_nmt.runner.lm.settings import (
    CLOCK,
    COUNT_METRICS,
    TRAINING_METRICS,
    CacheSettings,
    DynamicSettings,
    Rule,
    losses_in,
    missing,
    never_measured,
)
from hpobench_nmt.runner.settings import setting, settings_of
from hpobench_nmt.runner.torch_training.settings import TimingSettings, seed_of_model

if TYPE_CHECKING:
    from torch import Tensor

    from hpobench_nmt.runner.corpora import TextCorpus
    from hpobench_nmt.runner.lm.awd_lstm_model import AWDLSTM
    from hpobench_nmt.runner.lm.dynamic import UpdateRule
    from hpobench_nmt.runner.lm.neural_cache import NeuralCache

# Part of the names of kept files. Raise it whenever the same settings give another model or other statistics.
_FORMAT = 1
# Settings that were added later. Their defaults are not part of a name, so that older kept models are found.
_LATER = ("check_updates", "fine_tune", "precision", "accumulate", "cell", "zoneout", "dev_streams")
_WEIGHTS = "weights.pt"
_TRAINING = "training.json"


@dataclass(frozen=True, kw_only=True)
class _Dynamic(DynamicSettings, CacheSettings, TimingSettings):
    adaptation: Literal["dynamic", "cache", "both"] = setting(
        "dynamic", "dynamic evaluation, a neural cache, or a cache of the model that dynamic evaluation "
        "adapts",
    )  # fmt: skip
    dynamic_rule: Rule = setting("rms-rms-prior", "dynamic evaluation: update rule")
    model_seed: int = seed_of_model(1)


@dataclass(frozen=True, kw_only=True)
class DynamicEvaluationSettings(ModelSettings, _Dynamic):
    """Settings of one configuration."""


METRICS = (
    *losses_in((("", "with dynamic evaluation"), ("_static", "static, of the model as it was trained"))),
    Metric("dev_time", "min", "s", description=f"the pass over dev: {CLOCK}"),
    Metric(
        "dev_updates", "min", "updates", description="updates in the pass over dev, a cost that does not vary"
    ),
    Metric("cache_reads", "min", "vectors", description="hidden vectors that the cache reads in that pass"),
    Metric("dev_flops", "min", "FLOPs", description="floating-point operations of that pass"),
    *TRAINING_METRICS,  # of the model, so equal in all rows with the same seed
    *COUNT_METRICS,
)


def _train(job: Job[DynamicEvaluationSettings]) -> Outcome:
    from hpobench_nmt.runner.corpora import corpus_of
    from hpobench_nmt.runner.lm.dynamic import dynamic_nll
    from hpobench_nmt.runner.lm.measure import loss_metrics, refuse_chaotic, refuse_diverged, rule_of
    from hpobench_nmt.runner.lm.neural_cache import cache_nll
    from hpobench_nmt.runner.lm.static import WARM_UP
    from hpobench_nmt.runner.torch_training.clock import alone, lock_of, seconds
    from hpobench_nmt.runner.torch_training.memory import forget_peak, size_metrics
    from hpobench_nmt.runner.torch_training.repeatable import set_up

    corpus = corpus_of(job)
    device = set_up(job.device)
    model, folder = trained_model(job, corpus)
    settings = job.settings
    rule, cache = rule_of(settings, corpus), _cache(settings)
    rms = None if settings.adaptation == "cache" else _statistics(job, folder, model, corpus, rule)

    def adapted(tokens: Tokens) -> Floats:
        if cache and settings.adaptation == "cache":
            return cache_nll(model, tokens, cache)
        return dynamic_nll(model, tokens, rule, rms, cache)

    with alone(lock_of(job)):
        adapted(corpus.dev[:WARM_UP])
        forget_peak(device)
        started = seconds(device)
        dev = adapted(corpus.dev)
        taken = seconds(device) - started
    refuse_diverged(corpus, dev)
    known = json.loads((folder / _TRAINING).read_text(encoding="utf-8"))
    static = known["static"]
    if "dev_ppl_static" in static:
        unadapted = math.log(static["dev_ppl_static"])
    else:
        unadapted = static["dev_bpc_static"] * math.log(2.0)
    if settings.adaptation != "cache":
        refuse_chaotic(model, corpus.dev, rule, rms, unadapted, dev, cache)
    test = adapted(corpus.test)
    metrics = {**static, **loss_metrics(corpus, "", dev, test), "dev_time": taken, **size_metrics(model)}
    metrics |= {name: float(known[name]) for name in ("train_time", "num_updates")}
    metrics |= costs(settings, len(dev), rule.segment, metrics["num_param"])

    def save(new: Path) -> None:
        from hpobench_nmt.runner.lm.kept_files import save_language_model
        from hpobench_nmt.runner.lm.static import static_nll

        static = static_nll(model, corpus.dev), static_nll(model, corpus.test)
        losses = {"static": static, "cache" if settings.adaptation == "cache" else "dynamic": (dev, test)}
        save_language_model(new, model=model, corpus=corpus, settings=settings, losses=losses, statistics=rms)

    return Outcome(metrics, converged=known.get("converged", True), save=save)


def _cache(settings: DynamicEvaluationSettings) -> NeuralCache | None:
    """The neural cache of a configuration, if it has one."""
    from hpobench_nmt.runner.lm.neural_cache import NeuralCache

    if settings.adaptation == "dynamic":
        return None
    return NeuralCache(settings.cache_window, settings.cache_theta, settings.cache_lambda)


def costs(
    settings: DynamicEvaluationSettings, tokens: int, segment: int, parameters: float
) -> dict[str, float]:
    """The costs, which do not vary, of predicting that many tokens of a text.

    Per token, a parameter costs 2 operations in the forward pass, and 4 in the backward pass. An update takes
    10 operations for each parameter. The cache costs 2 for each number in the vectors that it reads.
    """
    adapts, caches = settings.adaptation != "cache", settings.adaptation != "dynamic"
    updates = math.ceil(tokens / segment) * adapts
    window = settings.cache_window * caches
    reads = sum(min(place, window) for place in range(tokens))
    flops = parameters * ((6 if adapts else 2) * tokens + 10 * updates) + 2 * settings.embedding_size * reads
    return {"dev_updates": float(updates), "cache_reads": float(reads), "dev_flops": float(flops)}


def trained_model(job: Job[DynamicEvaluationSettings], corpus: TextCorpus) -> tuple[AWDLSTM, Path]:
    """The job's model and its folder in the cache. The model is trained if the cache does not have it.

    Raises TrainingFailed if it cannot be trained.
    """
    import torch

    from hpobench_nmt.runner.lm.fit import fit
    from hpobench_nmt.runner.torch_training.clock import lock_of
    from hpobench_nmt.runner.torch_training.repeatable import set_up
    from hpobench_nmt.runner.torch_training.training_state import Checkpoints

    def make(folder: Path, state: Path) -> None:
        from hpobench_nmt.runner.lm.measure import loss_metrics
        from hpobench_nmt.runner.lm.static import static_nll

        settings, torch_version = job.settings, {"torch": torch.__version__}
        checkpoints = Checkpoints(state, {"model": identity, **torch_version}, stands_still_for=lock_of(job))
        model, training = fit(ARCHITECTURE, settings, corpus, job.seed, job.device, checkpoints)
        losses = (static_nll(model, part) for part in (corpus.dev, corpus.test))
        static = loss_metrics(corpus, "_static", *losses)
        folder.mkdir(parents=True)  # another machine may have removed the scratch folder after a day
        torch.save(model.state_dict(), folder / _WEIGHTS)
        about = {
            "settings": _model_settings(settings, job.seed),
            "corpus": dict(corpus.provenance),
            "static": static,
            "train_time": training.seconds,
            "num_updates": training.updates,
            "best_update": training.best_update,
            "converged": training.converged,
            "curve": training.curve,
            "versions": torch_version,
        }
        (folder / _TRAINING).write_text(json.dumps(about, indent=1), encoding="utf-8")

    # Devices add numbers in different orders, so they train different models.
    kind, sha256 = job.device.partition(":")[0], corpus.provenance["sha256"]
    identity = [_model_settings(job.settings, job.seed), sha256, kind]
    folder = shared_model(job.cache / "models" / f"awd-lstm-{key_of(identity)}", make)
    device, sizes = set_up(job.device), (len(corpus.vocabulary), corpus.unit)
    model: AWDLSTM = ARCHITECTURE.build(job.settings, *sizes, torch.Generator(device))
    model.load_state_dict(torch.load(folder / _WEIGHTS, map_location=device, weights_only=True))
    return model, folder


def _statistics(
    job: Job[DynamicEvaluationSettings], folder: Path, model: Any, corpus: TextCorpus, rule: UpdateRule
) -> list[Tensor] | None:
    """sqrt(MS_g) for the batch and segment of this configuration; None if the rule does not need it."""
    import torch

    from hpobench_nmt.runner.lm.measure import statistics

    if not rule.needs_rms:
        return None

    def make(path: Path) -> None:
        torch.save(statistics(model, corpus.train, rule, job.settings), path)

    names = ["dynamic_batch", "dynamic_statistics"]
    names += ["dynamic_units"] if rule.name == "sparse" else []
    named = {name: getattr(job.settings, name) for name in names} | {"dynamic_segment": rule.segment}
    path = make_once(folder.with_name(f"{folder.name}-rms-{key_of([_FORMAT, named])}.pt"), make)
    kept: list[Tensor] = torch.load(path, map_location=model.output_weight.device, weights_only=True)
    return kept


def _model_settings(settings: ModelSettings, seed: int) -> dict[str, Any]:
    named = {
        name: getattr(settings, name)
        for name, setting in settings_of(ModelSettings).items()
        if name not in _LATER or getattr(settings, name) != setting.default
    }
    return {"format": _FORMAT, "model_seed": seed} | named


FAMILY = Family(
    name="dynamic-evaluation",
    models="dynamic evaluation by every update rule, and a neural cache, of one trained AWD-LSTM",
    source="Krause et al. 2018",
    corpus="text",
    settings=DynamicEvaluationSettings,
    metrics=METRICS,
    train=_train,
    seed=lambda settings, replicate: settings.model_seed + replicate,
    check=check,
    never_measured=never_measured,
    missing=missing,
    architecture=ARCHITECTURE,
    pauses=False,
    shares_models=True,
)
