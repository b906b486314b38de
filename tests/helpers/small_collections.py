"""Made-up files of published collections, in the form of their authors', and declarations for these files."""

import hashlib
import io
import json
import pickle
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import tomli_w

from hpobench_nmt.lookup.collections import COLLECTIONS, declared

# What is kept of a declaration for the files here: tables, and hyperparameters if they are not all.
KEPT = {
    "algoperf": (["algoperf-wmt"], ["algorithm", "learning_rate", "dropout_rate", "use_nadam"]),
    "mlperf-training": (["mlperf-llama2-lora"], None),
    "nmtlc": (["nmtlc-zh-en"], None),
    "steplaw": (["steplaw-dense", "steplaw-moe"], None),
    "taskset": (["taskset-gru64-avg", "taskset-lstm128"], None),
}


def declare(name, folder):
    """Write the collection's declaration, with the hashes of the files in the folder and none of tables."""
    given = tomllib.loads(Path(declared.__file__).with_name(f"{name}.toml").read_text())
    tables, axes = KEPT.get(name, (list(given["tables"]), None))
    given["tables"] = {table: given["tables"][table] | {"sha256": ""} for table in tables}
    if axes:
        given["sheet"]["hyperparameters"] = {axis: given["sheet"]["hyperparameters"][axis] for axis in axes}
    if "members" not in given:
        held = {file: path for file in given["files"] for path in folder.rglob(file)}
        given["files"] = {
            file: {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for file, path in held.items()
        }
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps(given))
    return declared.read_declaration(path)


def write(folder, files):
    """Write files, by their paths in the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def clone(name, folder):
    """Write the files of a collection into a folder like a clone."""
    made = FILES[name]()
    within = COLLECTIONS[name].given.folder
    return write(folder, {f"{within}/{file}" if within else file: text for file, text in made.items()})


REQUESTS = """n,status,latency_ms,start_timestamp,end_timestamp,n_output_tokens,latency_ms_per_token
0,200,100.0,1000,1100,30,"[5, 10, 20]"
1,200,300.0,1500,1800,70,"[5, 30, 40, 50]"
2,408,,1900,3000,,[14]
"""


def llm_pilot():
    """LLM-Pilot's requests. The one that was not answered counts for time only."""
    return {
        "results_a__b_c-1B_gpu2_a10_u16.csv": REQUESTS,
        "results_a__b_c-1B_gpu2_a10_u32.csv": REQUESTS.replace(",200,", ",408,"),
        "results_a__b_c-1B_gpu4_t4_u16.csv": REQUESTS,
    }


def event(key, value=None, time=0, **metadata):
    """A line of MLPerf's log."""
    line = {"time_ms": time, "key": key, "value": value, "metadata": metadata}
    return f":::MLLOG {json.dumps(line)}\n"


def mlperf():
    """MLPerf's logs, two of one setting, of which one never reached the target."""
    setting = "".join(
        event(key, value)
        for key, value in (
            ("global_batch_size", 8),
            ("opt_base_learning_rate", 0.0004),
            ("opt_learning_rate_training_steps", 1024),
            ("gradient_accumulation_steps", 1),
        )
    )
    course = event("run_start", time=1000)
    course += event("eval_accuracy", 0.95, 61000, samples_count=100)
    failed = setting + course + event("run_stop", time=90000, status="aborted")
    course += event("tracked_stats", {"throughput": 2.0}, 70000, step=3)
    course += event("eval_accuracy", 0.92, 121000, samples_count=200)
    done = "not a line of the log\n" + setting + course
    done += event("run_stop", time=121000, status="success", samples_count=208)
    other = setting.replace("0.0004", "0.0005") + course + event("run_stop", time=121000, status="success")
    steps = "opt_learning_rate_warmup_steps"
    return {
        f"AMD/results/MI300X/{bench}/result_{number}.txt": text
        if "lora" in bench
        else text.replace("opt_learning_rate_training_steps", steps)
        for number, text in enumerate((failed, done, other))
        for bench in ("llama2_70b_lora", "llama31_8b")
    }


def nanogpt():
    """Logs of modded-nanogpt, of which one has two trainings, and one is not in a folder."""
    lines = "step:0/9 val_loss:10.8 train_time:0.0s\nstep:9/9 val_loss:{} train_time:1.5s step_avg:9ms\n"
    logs = {"20260430_adamh/a": (3.3, 3.2), "20260501_x/b": (3.1,), "c": (3.0,)}
    return {
        f"{name}.txt": "import torch\n" + "".join(map(lines.format, losses)) for name, losses in logs.items()
    }


def peft():
    """Results of PEFT: one as its authors write them today, and one as they once did, of all parameters."""
    course = [{"step": 250, "valid accuracy": 0.3, "train loss": 1.5, "elapsed time": 9.5}]
    course += [{"step": 500, "valid accuracy": 0.4, "train loss": 1.0, "elapsed time": 20.0}]
    course += [{"step": 500, "test accuracy": 0.45, "train loss": 1.0}]
    files = {}
    for name, peft_config, memory in (("a/b", {"peft_type": "LORA"}, "accelerator"), ("full", None, "cuda")):
        about = {"train_config": {"optimizer_kwargs": {"lr": 0.1 if peft_config else 0.2}}}
        about |= {"experiment_name": name, "peft_config": peft_config}
        trained = {f"{memory}_memory_max": 7, "train_time": 21.5, "file_size": 3, "metrics": course}
        trained |= {"num_trainable_params": 5 if peft_config else 6}
        files[f"{memory}.json"] = json.dumps({"run_info": about, "train_info": trained})
    return files


def marin():
    """Results of Marin: for each optimizer, the best setting and one that differs in the learning rate."""
    common = ["learning_rate", "beta1", "beta2", "weight_decay", "warmup", "train_batch_size"]
    common.append("max_grad_norm")
    own = {
        "adamw": ("epsilon",),
        "lion": (),
        "mars": ("epsilon", "gamma"),
        "muon": ("epsilon", "decay", "momentum", "muon_epsilon", "muon_to_adam_lr"),
        "soape": ("epsilon", "block_size", "precondition_frequency", "shampoo_beta"),
    }
    files = {}
    for optimizer, names in own.items():
        result = {
            "best_config": dict.fromkeys((*common, *names), 0.5),
            "baseline": {"loss": 3.5},
            "ablations": [{"param": "learning_rate", "value": 0.25, "loss": 3.75}],
        }
        files[f"{optimizer}/130m/1/result.json"] = json.dumps(result)
    return files


COLUMNS = "global_step,accumulated_submission_time,score,validation/bleu,test/bleu,validation/loss"
LINES = {
    ("nadamp", 0, 1): ["1,3.5,0,0.1,0.2,9.5", "200,70.25,0,21.5,20.5,2.5", "400,140.5,0,23.5,19.5,2.25"],
    ("nadamp", 1, 1): ["1,3.5,0,0.1,0.2,9.5", "200,71.25,0,22.5,20.5,2.5"],
    ("nadamp", 0, 2): ["1,3.5,0,0.1,0.2,9.5", "200,70,0,0,0,", "400,140,0,0,0,"],  # diverged
    ("lawa_ema", 0, 1): None,  # it has no evaluation
    ("lawa_ema", 1, 1): ["1,4.5,0,0.1,0.2,9.5", "200,80.25,0,20.5,20.25,2.75"],
    ("lawa_ema", 0, 2): None,
}
FRAMEWORKS = {"nadamp": "jax", "lawa_ema": "pytorch"}


def algoperf():
    """Logs of two of AlgoPerf's algorithms on one workload, and of one that is not taken in."""
    files = {}
    for (algorithm, study, trial), lines in LINES.items():
        folder = f"{algorithm}/study_{study}/wmt_{FRAMEWORKS[algorithm]}/trial_{trial}"
        settings = {"learning_rate": 0.001 * trial, "optimizer": "x", "dropout_rate": 0.1 * (trial > 1)}
        if algorithm == "nadamp":
            settings["use_nadam"] = True
        files[f"{folder}/hparams.json"] = json.dumps(settings)
        if lines:
            files[f"{folder}/eval_measurements.csv"] = "\n".join([COLUMNS, *lines])
    files["baseline/study_1/wmt_post_ln_jax/trial_1/hparams.json"] = "{}"
    files["nadamp/study_0/wmt_jax/trial_1/meta_data.json"] = "not read"
    return files


def steplaw():
    """Step Law's files. Rates are rounded in different ways."""
    dense = ["h,ffnh,numh,numl,lr,bs,ti,loss,smooth loss,D,N"]
    dense += [f"960,9368,15,7,{lr},{bs},9,{2 + bs / 999},{2 + bs / 998},2e9,2e8"
              for lr in ("0.0003453", "0.000345", "0.0009766") for bs in (32, 64)]  # fmt: skip
    moe = ["moe_name,lr,bs,loss,smooth loss,N,Na,D,total_time"]
    moe += [f"{kind},1.726e-04,{bs},2.7,{2 + bs / 998},2e9,2e8,2e9,{bs}.5"
            for kind in ("1in89", "2in88", "1in8", "3in8") for bs in (32, 64)]  # fmt: skip
    return {"dense_lr_bs_loss.csv": "\n".join(dense), "moe_lr_bs_loss.csv": "\n".join(moe)}


SETTINGS = ("learning_rate", "beta1", "beta2", "epsilon", "l1", "l2", "linear_decay", "exponential_decay")


def taskset_entry(seed, nan_from=51):
    """A training of TaskSet whose losses are NaN from a checkpoint on."""
    rng = np.random.default_rng(seed)
    losses = [float(v) if i < nan_from else float("nan") for i, v in enumerate(rng.random(51))]
    return {"hp": dict(zip(SETTINGS, rng.random(8).tolist(), strict=True))} | {
        part: {"loss": losses} for part in ("train", "valid", "test")
    }


def taskset():
    """Two files of TaskSet."""
    text = json.dumps([taskset_entry(1), taskset_entry(2, nan_from=30), taskset_entry(3, nan_from=0)])
    names = ("GRU64_avg", "LSTM128")
    return {f"FixedTextRNNClassification_imdb_patch32_{name}_bs128.json": text for name in names}


def nas_bench_nlp():
    """Logs of NAS-Bench-NLP: two trainings of one cell, and one of another that diverged."""
    cells = [{"f": ["linear", "x", "h_prev_0"], "h_new_0": ["activation_tanh", "f"]}] * 2
    cells.append({"h_new_0": ["activation_sigm", "x"]})
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for k, cell in enumerate(cells):
            nodes = {name: {"op": op, "input": inputs} for name, (op, *inputs) in cell.items()}
            log = {"recepie_id": k, "recepie": json.dumps(nodes), "experiment_id": k}  # codespell:ignore
            log |= {"init_time": f"2020-04-2{k}", "num_params": 99 + k, "wall_times": [1.5, 2.5]}
            log |= {f"{part}_losses": [5.5, 5.0 + k if k < 2 else float("nan")] for part in PARTS}
            archive.writestr(zipfile.ZipInfo(f"log_stats_model_{k}.json"), json.dumps(log))
    return {"logs.zip": packed.getvalue()}


PARTS = ("train", "val", "test")


def nmtlc():
    """The pickle of NMTLC: two models that were fine-tuned, and one that was trained from scratch."""
    sizes = {"initial_lr": 2e-05, "ff_num_hidden": 4096, "num_layers": 24, "batch_size": 16, "bpe": 9}
    tuned = [
        {"task": "finetune", "dataset_name": "zh-en", "src": "zh", "trg": "en", "basemodel": model}
        | {"hyperparams": {**sizes, "model_size": 1024, "r": 2}, "perplexity_curve": [4.5, 4.25]}
        | {"perplexity_optimal": 4.25, "bleu_curve": [0.0, 0.5], "bleu_optimal": 0.5}
        for model in ("bloomz", "xglm")
    ]
    scratch = {"task": "scratch", "dataset_name": "so-en", "src": "so", "trg": "en", "basemodel": "scratch"}
    scratch |= {"hyperparams": {**sizes, "model_size": 256, "r": 0}}
    scratch |= {"perplexity_curve": [18.5, 21.5], "perplexity_optimal": 18.5}
    return {"nmtlc.pkl": pickle.dumps([*tuned, scratch])}


FILES = {
    "algoperf": algoperf,
    "llm-pilot": llm_pilot,
    "marin-optimizers": marin,
    "mlperf-training": mlperf,
    "nanogpt-track-3": nanogpt,
    "nas-bench-nlp": nas_bench_nlp,
    "nmtlc": nmtlc,
    "peft": peft,
    "steplaw": steplaw,
    "taskset": taskset,
}
"""For each collection, a function that returns contents by the name of the file in the authors' folder."""
