"""How many families of tables the rules leave in each track, and how many of these a method was not tuned on.

    python benchmarks/tables/count_families.py [FOLDER ...] [--samples 2000] [--tracks plain multi]

The rules of table_rules.py are applied to all installed tables whose authors state a licence, and to tables
in further folders. A track has at most two tables of a family: those with most rows, then by name. In
`noise`, 40 rows are enough, and only rows that were trained several times count. On a clock of costs, a
quarter of the samples is drawn, because random search is simulated in each.

A plus marks a table that stays. A table that loses to its baseline stays, but its line says so. families.txt
has the output for the collections that `hpobench-nmt tables fetch` knows.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from table_rules import FEWEST_ROWS, Figures, figures_of

from hpobench_nmt.analysis.tables.controls import SAMPLES
from hpobench_nmt.benchmarking.task.suite import changed
from hpobench_nmt.evaluation.verdicts import FEWEST_FAMILIES
from hpobench_nmt.lookup.catalogue import installed, load_table
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.disk.folder import load_folder
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.methods import TUNED_ON

MOST_OF_A_FAMILY = 2
FEWEST_WITH_NOISE = 40
_NAMES = {
    "small GPTs": "sotu-gpt-30k sotu-gpt-80k sotu-gpt-200k sotu-gpt-500k",
    "LSTM language models": "sotu-awd-lstm sotu-lstm sotu-optimizers",
    "n-gram models": "sotu-ngram sotu-ngram-curves",
    "adaptation at test time": "sotu-dyneval sotu-dyneval-short sotu-adaptation",
    "optimizers of RNNs": "taskset-gru64-avg taskset-irnn64-relu-avg taskset-irnn64-relu-last taskset-lstm128"
    " taskset-lstm128-e128 taskset-lstm128-patch128 taskset-vrnn128-tanh taskset-vrnn64-tanh-avg",
    "translation models": "zh-en ru-en ja-en en-ja sw-en so-en nmtlc-zh-en nmtlc-fr-en lohelp-de-en",
    "decoding of translations": "lohelp-decoding",
    "word alignment": "lohelp-alignment",
    "Transformers of a benchmark of optimizers": "algoperf-wmt algoperf-wmt-glu-tanh",
    "speech recognition of a benchmark of optimizers": "algoperf-conformer algoperf-conformer-layernorm"
    " algoperf-deepspeech",
    "shapes and rates of GPTs": "gemstones-shapes gemstones-rates",
    "recurrent cells": "nas-bench-nlp-wikitext2",
    "a GPT of 50M in five minutes": "autoresearch-random",
    "serving of language models": "llm-pilot-serving llm-inference-bench-all llmsys-sglang",
    "trainings of language models to a target": "mlperf-llama2-lora mlperf-llama31",
    "retrieval and answers": "llmsys-lightrag llmsys-html-rag",
}
FAMILIES = {table: family for family, tables in _NAMES.items() for table in tables.split()}
"""Tables of one task, one kind of model and one space are a family."""
SMALLER = {
    "sotu-gpt-80k": "sotu-gpt-30k",
    "sotu-gpt-200k": "sotu-gpt-80k",
    "sotu-gpt-500k": "sotu-gpt-80k",
    "taskset-vrnn128-tanh": "taskset-vrnn64-tanh-avg",
    "taskset-lstm128-e128": "taskset-lstm128",
}
"""For each table of `scale`, the table of a smaller model."""
TRACKS: dict[str, tuple[dict[str, Any], Callable[[Table], bool]]] = {
    "plain": ({}, lambda table: True),
    "early": (
        {"clock": "cost", "curves": True, "workers": 8, "n_initial": 0},
        lambda table: table.curves is not None,
    ),
    "multi": ({"scores": ["fto"]}, lambda table: len(table.objectives) > 1),
    "noise": ({"noise": "replicates"}, lambda table: trained_again(table) is not None),
    "scale": (
        {"n_initial": 0, "prior": "source", "source_of": SMALLER},
        lambda table: table.name in SMALLER,
    ),
}
"""The settings of each track, and which tables have what it needs."""


def candidates(folders: list[Path]) -> list[Table]:
    """All tables that a track may have, by name."""
    closed = [c for c in COLLECTIONS.values() if c.given.licence.startswith("none")]
    print(f"In no track, because the authors state no licence: {', '.join(c.name for c in closed)}.")
    names = [name for name in installed() if not any(name in c.tables for c in closed)]
    tables = [*map(load_table, names), *map(load_folder, folders)]
    biased = [table.name for table in tables if "biased" in table.provenance]
    print(f"In no track, because they were searched for good rows: {', '.join(biased) or 'none'}.")
    tables = [table for table in tables if table.name not in biased]
    for table in tables:
        if table.name not in FAMILIES:
            raise SystemExit(f"table {table.name!r} has no family: name one in FAMILIES.")
    return sorted(tables, key=lambda table: table.name)


def fitting(track: str, tables: list[Table], samples: int) -> dict[str, Figures]:
    """The figures of all tables that have what a track needs, by name, most rows first."""
    settings, fits = TRACKS[track]
    suite = changed(SAMPLES, trials=samples // (4 if "clock" in settings else 1), **settings)
    print(f"Without what {track} needs: {', '.join(t.name for t in tables if not fits(t)) or 'none'}.")
    found = {}
    for table in filter(fits, tables):
        seen = trained_again(table) if track == "noise" else table
        assert seen is not None  # the table fits
        found[table.name] = figures_of(suite, seen)
    return dict(sorted(found.items(), key=lambda item: (-item[1].rows, item[0])))


def trained_again(table: Table) -> Table | None:
    """The rows of which there are several trainings; None if there are none, or all of them failed."""
    if table.replicates is None:
        return None
    again = table.of_rows(np.unique(table.replicates.by_row(table.configs)[0]))
    return again if np.isfinite(again.column(again.main_metric)).any() else None


def count(track: str, tables: list[Table], samples: int) -> None:
    """Print the tables of a track, its families, and how many of them did not tune each method."""
    print(f"\n# {track}")
    kept: defaultdict[str, list[str]] = defaultdict(list)
    for name, figures in fitting(track, tables, samples).items():
        family = FAMILIES[name]
        failed = figures.failures(FEWEST_WITH_NOISE if track == "noise" else FEWEST_ROWS)
        if not failed and len(kept[family]) == MOST_OF_A_FAMILY:
            failed = [f"there are {MOST_OF_A_FAMILY} of its family"]
        if not failed:
            kept[family].append(name)
        print(f"  {'-' if failed else '+'} {name}: {', '.join([*failed, str(figures)])}", flush=True)
    families = {family: names for family, names in kept.items() if names}
    print(f"{len(families)} families in {track}:")
    for family, names in families.items():
        print(f"  {family}: {', '.join(names)}")
    for seen in dict.fromkeys(TUNED_ON.values()):
        methods = [name for name in TUNED_ON if TUNED_ON[name] == seen]
        outside = [family for family in families if family not in seen]
        enough = (
            "" if len(outside) >= FEWEST_FAMILIES else f", fewer than a verdict needs ({FEWEST_FAMILIES})"
        )
        print(f"{len(outside)} did not tune {', '.join(methods)}{enough}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--tracks", nargs="+", choices=TRACKS, default=[*TRACKS])
    given = parser.parse_args()
    licensed = candidates(given.folders)
    for each in given.tracks:
        count(each, licensed, given.samples)
