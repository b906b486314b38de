"""What the name of a column shows: a metric and its better direction, a hyperparameter, or neither."""

from __future__ import annotations

import re

from hpobench_nmt.core.objectives import Direction


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ROUGE = frozenset({"rouge"})  # codespell:ignore rouge
_MAX = _ROUGE | _words("""
    acc accuracy bleu chrf comet f1 fscore auc auroc auprc precision recall r2 reward return iou miou
    dice mcc kappa ndcg mrr map hits meteor psnr ssim throughput winrate elo correlation pearson
    spearman kendall likelihood gain sharpe top1 top5 sps wps
""")
_MAPE = frozenset({"mape"})  # codespell:ignore mape
_MIN = _MAPE | _words("""
    loss losses error err wer cer ter ppl perplexity mse rmse mae smape msle rmsle nll bpc bpb bpw
    bits ce xent logloss fid brier ece regret deviance latency
""")
# Words that also name settings: 16 and 32 bits of precision, the gain of an initialisation.
_WEAK = _words("precision bits gain map memory mem reward params parameters return hits gpu time energy")
_COST = _words("""
    seconds sec secs ms msec duration runtime latency memory mem flops flop flos macs params parameters gpu
    energy time kb mb gb kib mib gib bytes
""")
_HYPER = _words("""
    lr learning batch bs size dropout decay wd momentum layer layers depth width hidden head heads
    embed embedding dim dims beta beta1 beta2 eps epsilon alpha gamma lambda reg l1 l2 clip clipping
    warmup smoothing temperature optimizer optim activation units kernel filters channels estimators
    leaf leaves bpe symbols vocab scheduler schedule penalty subsample colsample kernels stride nesterov
    augment dropoutrate patience accumulation
""")
_PER_TIME = _words("s sec second seconds min minute h hour day")
_IDENTITY = _words("""
    id index number trial run uuid name trialid runid pid hostname host user ip nodeip path dir logdir
    url link commit git sha hash notes tags note comment description timestamp date created updated
    started ended start end time checkpointdirname done experimenttag experimentid group jobtype sweep
    command
""")
_SECONDS = _words("""
    seconds duration runtime timetotals elapsed elapsedseconds walltime walltimes walltimeseconds
    traintime trainingtime trainingseconds trainseconds durations durationseconds timeseconds secs
    totaltime
""")
_STEPS = (
    "step", "_step", "epoch", "epochs_done", "iteration", "iter", "training_iteration", "update", "updates",
    "num_updates", "global_step", "trainer/global_step", "tokens", "tokens_seen", "samples", "samples_seen",
)  # fmt: skip
_IDS = (
    "trial_id",
    "run_id",
    "file",
    "run",
    "trial",
    "run_name",
    "id",
    "uuid",
    "config_id",
    "name",
    "experiment_id",
)
_PARTS = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")
# The parts of the data, and the words by which names mention them.
_DATA = {"held out": _words("val valid validation dev eval evaluation heldout")}
_DATA |= {"test": _words("test"), "train": _words("train training tr")}


def parts(name: str) -> list[str]:
    """The words of a name: ["val", "loss"] of val_loss, val/loss and valLoss."""
    return [part.lower() for part in _PARTS.findall(name)]


def _joined(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def direction(name: str) -> Direction | None:
    """The better direction of a metric of this name; None if the name does not show it."""
    if name.endswith(("+", "-")):
        return "max" if name.endswith("+") else "min"
    words = parts(name)
    if "time" in words and {"start", "end", "created"} & set(words):
        return None
    if "per" in words[:-1]:  # tokens_per_sec is larger where training is faster, and sec_per_token smaller
        return "max" if set(words[words.index("per") + 1 :]) & _PER_TIME else "min"
    bare = {word.rstrip("0123456789") for word in words if word not in ("l1", "l2")} | set(words)
    low = bool(bare & _MIN) or bool(bare & _COST) or "crossentropy" in _joined(name)
    high = bool(bare & _MAX)
    if low == high:
        return None
    if "neg" in words or "negative" in words:  # scikit-learn's neg_mean_squared_error
        low = not low
        if "likelihood" in words or "log" in words:
            return None
    return "min" if low else "max"


def is_doubtful(name: str) -> bool:
    """Whether the words that make it the name of a metric also name settings."""
    words = {word.rstrip("0123456789") for word in parts(name)} | set(parts(name))
    return words & (_MAX | _MIN | _COST) <= _WEAK and not part_of_data(name)


def is_cost(name: str) -> bool:
    """Whether it is the name of a cost, which is rarely the objective."""
    return bool({word.rstrip("0123456789") for word in parts(name)} & _COST)


def is_hyperparameter(name: str) -> bool:
    """Whether it is a usual name of a hyperparameter."""
    words = parts(name)
    bare = {*words, *(word.rstrip("0123456789") for word in words)}
    return bool(bare & _HYPER) or bool(
        {"rate"} & bare and bare & {"learning", "dropout", "decay", "sampling"}
    )


def is_identity(name: str) -> bool:
    """Whether a column of this name names or dates trainings, or states where they ran."""
    return (
        _joined(name) in _IDENTITY
        or parts(name)[-1:] in (["id"], ["uuid"], ["timestamp"], ["file"], ["path"], ["dir"], ["url"])
        or name.startswith("Unnamed:")
        or not name
    )


def is_progress(name: str) -> bool:
    """Whether a column of this name says how far a training was."""
    return name.lower() in _STEPS


def is_seed(name: str) -> bool:
    """Whether it is the name of a column of seeds."""
    return parts(name)[-1:] == ["seed"] or "randomstate" in _joined(name)


def is_seconds(name: str) -> bool:
    """Whether it is the name of a column of durations."""
    return _joined(name) in _SECONDS


def part_of_data(name: str) -> str:
    """The part of the data that the name mentions ("held out", "test" or "train"), or ""."""
    words = set(parts(name))
    return next((part for part, known in _DATA.items() if words & known), "")


def step_columns(names: list[str]) -> list[str]:
    """The columns that may measure the progress of a training, the likeliest first."""
    lowered = {name.lower(): name for name in reversed(names)}
    return [lowered[step] for step in _STEPS if step in lowered]


def id_columns(names: list[str]) -> list[str]:
    """The columns that may identify the training of a line, the likeliest first."""
    lowered = {name.lower(): name for name in reversed(names)}
    return [lowered[known] for known in _IDS if known in lowered]
