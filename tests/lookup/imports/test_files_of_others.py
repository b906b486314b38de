"""Every table in ../shared/cases-2 and ../shared/sources: right at once, after one confirmation, or after one
correction of the roles that were asked about; or refused with the reason. Never wrong in silence.

    pytest -m hosts -s tests/lookup/imports/test_files_of_others.py     # prints what became of each file
"""

import re
import subprocess
import sys
from collections import Counter

import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.imports.importing import Unsure

ONCE, CONFIRMED, CORRECTED, REFUSED = (
    "right at once", "right after one confirmation", "right after corrected roles", "refused with its reason",
)  # fmt: skip
NOT_ROLES = "no column that varies is a hyperparameter"
TASK = "taskset-rnn/FixedTextRNNClassification_imdb_patch"
TASKS = (
    "128_LSTM128_bs64", "32_GRU64_avg_bs128", "32_IRNN64_relu_avg_bs128", "32_IRNN64_relu_last_bs128",
    "32_LSTM128_E128_bs128", "32_LSTM128_bs128", "32_VRNN128_tanh_bs128", "32_VRNN64_tanh_avg_bs128",
)  # fmt: skip
ADAM8P = "learning_rate beta1 beta2 epsilon l1 l2 linear_decay exponential_decay"
CENTAUR = (
    "DEPTH ASPECT_RATIO HEAD_DIM DEVICE_BATCH_SIZE TOTAL_BATCH_SIZE EMBEDDING_LR UNEMBEDDING_LR MATRIX_LR "
    "SCALAR_LR WEIGHT_DECAY WARMUP_RATIO WARMDOWN_RATIO FINAL_LR_FRAC WINDOW_PATTERN"
)
IGNORED = "ignore"
SETTING = "hyperparameter"

SAME_SYSTEM = ("org", "submission_org", "system", "submission_platform", "bench", "evals", "target_accuracy")
DERIVED = ("ti", "final_iter", "N", "Na", "M", "D/N", "Na/N", "moe_name")

# Of each file: what becomes of it; the hyperparameters (the first ones, if ... follows), the objective and
# the rows, or the reason; the roles that a person corrects.
CASES = {
    "01-precision-is-a-metric/sweep.csv": (CONFIRMED, "lr precision", "val_loss:min", 4),
    "03-error-rate-is-a-hyperparameter/sweep.csv": (ONCE, "lr layers", "word_error_rate:min", 4),
    "04-whole-number-outcomes/sweep.csv": (ONCE, "window embed_dim", "val_loss:min", 4),
    "06-percent-signs/sweep.csv": (ONCE, "lr layers", "val_acc:max", 4),
    "08-ax-trial-status/sweep.csv": (ONCE, "lr layers", "val_loss:min", 5),
    "10-nevergrad-log/log.jsonl": (ONCE, "lr layers", "loss:min", 3),
    "12-halving-rounds-averaged/cv.csv": (ONCE, "lr depth", "score:max", 4),
    "13-mlflow-parent-run/runs.csv": (ONCE, "lr layers", "val_loss:min", 3),
    "16-ray-frame-stopped-early/results.csv": (ONCE, "lr layers", "val_loss:min", 4),
    "18-optuna-labels-merged/labels.db": (ONCE, "tok flag", "value:min", 6),
    "20-nano-becomes-Noneo/runs.csv": (ONCE, "lr net", "val_loss:min", 3),
    "21-a-day-and-more/sweep.csv": (ONCE, "lr layers", "val_loss:min", 4),
    "23-minus-inf-in-summary/runs.csv": (ONCE, "lr layers", "val_loss:min", 3),
    "25-pretty-printed-json/runhistory.json": (
        REFUSED, rf"{NOT_ROLES}\. These are not: config\.lr .always 0\.1.\.$",
    ),
    "26-header-begins-with-hash/sweep.csv": (ONCE, "opt lr", "val_loss:min", 4),
    "28-optuna-two-header-rows/trials.csv": (CONFIRMED, "lr opt", "value:min", 2),
    "30-fractional-epochs-shifted/log.csv": (ONCE, "lr", "val_loss:min", 3),
    "39-tilde-in-home/t.csv": (ONCE, "lr", "val_loss:min", 3),
    "42-epochs-as-columns/sweep.csv": (CONFIRMED, "learning_rate momentum model", "value_by_epoch:min", 6),
    "49-json-list-depth/l800.jsonl": (REFUSED, "line 1: nested too deeply"),
}  # fmt: skip
SOURCES = {
    "algoperf/runs.csv.gz": (
        CORRECTED, "submission workload ...", "validation/bleu.max:max", None,
        {"submission": SETTING, "workload": SETTING, "study": IGNORED, "evals": IGNORED,
         "global_step.max": IGNORED, "validation/bleu.max": "objective:max"},
    ),
    "autoresearch-automl/trials.csv": (
        CORRECTED, CENTAUR, "val_bpb:min", None, {"method": IGNORED, "tid": IGNORED, "wt": "metric:min",
         "val_bpb": "objective:min"},
    ),
    "autoresearch-automl/trials.json": (REFUSED, "is one JSON object .with 'Centaur"),
    "gemstones/wandb_df_for_fitting_cool_end.jsonl": (
        CORRECTED, "width depth tokens num_nodes", "final_loss:min", 199,
        {"tokens": SETTING, "final_loss": "objective:min", "params_active_precise": "metric:min",
         "seconds_per_step": "metric:min"},
    ),
    "gemstones/wandb_df_for_fitting_hot_100b+_477.jsonl": (
        CONFIRMED, "width depth num_nodes", "final_loss:min", 22,
    ),
    "gemstones/wandb_df_for_fitting_hot_120b+_only_477.jsonl": (
        CONFIRMED, "width depth num_nodes", "final_loss:min", 22,
    ),
    "gemstones/wandb_df_for_fitting_hot_477.jsonl": (
        CONFIRMED, "width depth num_nodes", "final_loss:min", 22,
    ),
    "gemstones/wandb_df_for_fitting_lr_ablation_hot_477.jsonl": (
        CONFIRMED, "width depth num_nodes", "final_loss:min", 20,
    ),
    "ibm-llm-pilot/llm_pilot.csv": (
        CORRECTED, "model n_gpus gpu users", "throughput:max", 526,
        {"requests": IGNORED, "ok": IGNORED, "ttft_ms": "metric:min", "itl_ms": "metric:min",
         "throughput": "objective:max"},
    ),
    "llm-inference-bench/All_results.csv": (
        CONFIRMED, "Hardware Num_of_Hardware Framework Model Input_Output_Length Batch_Size",
        "Throughput:max", 4715,
    ),
    "llm-inference-bench/TP_EP_PP_results.csv": (
        CONFIRMED, "Num_of_Hardware Model Input_Output_Length Batch_Size Parallelism_Type",
        "Throughput:max", 371,
    ),
    "llmsys-hpobench/LightRAG.csv": (
        CONFIRMED, "ai-llm_model_name chunk_token_size ...", "precision+:max", 1005,
    ),
    "llmsys-hpobench/SGLang.csv": (
        CONFIRMED, "max_running_requests max_total_tokens ...", "request_throughput+:max", 185,
    ),
    "llmsys-hpobench/html_rag.csv": (
        CONFIRMED, "CHUNK_SIZE CHUNK_OVERLAP ...", "Context_Similarity+:max", 1000,
    ),
    "marin-optimizers/marin-optimizers-130m.csv": (
        CONFIRMED, "optimizer beta1 beta2 epsilon learning_rate ...", "eval_loss:min", 122,
    ),
    "mlperf-training-v5.1/curves.csv": (REFUSED, NOT_ROLES),
    "mlperf-training-v5.1/runs.csv": (
        CORRECTED, "submission_benchmark global_batch_size ...", "final:min", None,
        dict.fromkeys(SAME_SYSTEM, IGNORED) | {"final": "objective:min"},
    ),
    "modded-nanogpt-track3/curves.csv": (REFUSED, NOT_ROLES),
    "modded-nanogpt-track3/runs.csv": (
        CORRECTED, "group steps", "val_loss:min", None,
        {"group": SETTING, "last_step": IGNORED, "points": IGNORED},
    ),
    "nas-bench-nlp-wikitext2/logs.zip": (REFUSED, "another ZIP archive. Unpack it"),
    "peft-metamathqa/MetaMathQA.csv": (
        CORRECTED, "peft_type rank lr", "test_accuracy:max", None,
        {"peft_type": SETTING, "file_size": "metric:min", "test_accuracy": "objective:max"},
    ),
    "peft-metamathqa/MetaMathQA_curves.csv": (REFUSED, NOT_ROLES),
    "peft-metamathqa/image-gen.csv": (
        CORRECTED, "peft_type rank lr", "time:min", None,
        {"peft_type": SETTING, "max_steps": IGNORED, "file_size": "metric:min", "time": "objective:min"},
    ),
    "peft-metamathqa/image-gen_curves.csv": (REFUSED, NOT_ROLES),
    "steplaw/dense_lr_bs_loss.csv": (
        CORRECTED, "h ffnh numh numl lr bs D", "smooth_loss:min", 1911,
        {"ti": IGNORED, "N": IGNORED, "D/N": IGNORED, "smooth loss": "objective:min"},
    ),
    "steplaw/moe_lr_bs_loss.csv": (
        CORRECTED, "topk nume moeh sed lr bs D", "smooth_loss:min", 708,
        dict.fromkeys(DERIVED, IGNORED) | {"smooth loss": "objective:min"},
    ),
    **{f"{TASK}{task}.json.gz": (ONCE, ADAM8P, "valid.loss:min", 1000) for task in TASKS},
}  # fmt: skip


@pytest.fixture(scope="module")
def shared(request, tmp_path_factory):
    """The folder of a part of the files; skips if it is absent."""

    def shared(part):
        folder = request.config.rootpath.parent / "shared" / part
        if not folder.is_dir():
            pytest.skip(f"the files are not in ../shared/{part}")
        return folder

    return shared


def outcome(imported, path, wanted):
    """What became of a file; what is wrong, if it is."""
    kind, *rest = wanted
    try:
        try:
            table, became = imported(path).table, ONCE
        except Unsure:
            corrected = {"roles": rest[3]} if kind == CORRECTED else {}
            table = imported(path, guessed=True, **corrected).table
            became = CORRECTED if corrected else CONFIRMED
    except InputError as error:
        return REFUSED if kind == REFUSED and re.search(rest[0], str(error)) else f"WRONG: {error}"
    names = [name.replace(" ", "_") for name in table.space.names]
    settings = rest[0].split() if kind != REFUSED else []
    if settings[-1:] == ["..."]:
        names, settings = names[: len(settings) - 1], settings[:-1]
    objectives = [str(table.objective(each)).replace(" ", "_") for each in table.objectives]
    right = (
        became == kind
        and sorted(names) == sorted(settings)
        and objectives == [rest[1]]
        and rest[2] in (None, len(table))
    )
    return became if right else f"WRONG ({became}): {names}, {objectives}, {len(table)} rows"


def report(imported, folder, wanted):
    """Print what became of each file; the counts."""
    counts = Counter()
    for name, each in wanted.items():
        found = outcome(imported, folder / name, each)
        counts[found.partition(" (")[0].partition(":")[0]] += 1
        print(f"{found}: {name}")
    print(dict(counts))
    return counts


@pytest.mark.hosts
def test_cases(imported, shared, tmp_path):
    folder, found = shared("cases-2"), dict(CASES)
    labels = "18-optuna-labels-merged/labels.db"
    case = found.pop(labels)
    counts = report(imported, folder, found)
    make = folder / "18-optuna-labels-merged" / "make.py"
    if subprocess.run([sys.executable, str(make)], cwd=tmp_path).returncode == 0:
        counts += report(imported, tmp_path, {"labels.db": case})
    assert not counts["WRONG"] and counts[ONCE] + counts[CONFIRMED] >= 0.85 * counts.total()


@pytest.mark.hosts
def test_sources(imported, shared):
    folder = shared("sources")
    tables = {p.relative_to(folder).as_posix() for p in folder.rglob("*.*") if p.is_file()}
    tables = {name for name in tables if not name.endswith((".md", ".parquet"))}
    assert tables == set(SOURCES)
    assert not report(imported, folder, SOURCES)["WRONG"]
