"""Simulated studies with known variance components: is the predicted power right?

    python benchmarks/statistics/power_of_studies.py [--studies 1000] [--seed 0]

Prints how many families a power of 0.8 needs. Then, for several sizes of studies: how often the 90% range
that each study gives for its power covers the true one, and by true ratio the share of studies in which the t
test over families has p < 0.05, and the power that the components predict.
"""

from __future__ import annotations

import argparse

import numpy as np

from hpobench_nmt.evaluation.power import Components, components, families_needed, power, power_at
from hpobench_nmt.evaluation.verdicts import on_other_families

CELL, CELL_TRIALS = 0.115, 20
DEVIATIONS = Components(np.array(0.30), np.array(0.25), np.array(CELL * CELL_TRIALS**0.5))
RATIOS = (1.3, 1.5, 2.0)
STUDIES = ((5, 2, 20), (8, 1, 20), (8, 2, 20), (16, 2, 10), (21, 1, 20))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    for tables in (4, 2, 1):
        sd = float(DEVIATIONS.family_sd(tables, CELL_TRIALS))
        needed = ", ".join(f"{families_needed(ratio, sd):.0f} at {ratio}" for ratio in RATIOS)
        print(f"tables of each family {tables}, trials {CELL_TRIALS}: families needed {needed}")
    for families, tables, trials in STUDIES:
        variance, sd = DEVIATIONS.trial**2 / trials, float(DEVIATIONS.family_sd(tables, trials))
        shape = (asked.studies, families, tables)
        parts = rng.normal(0, DEVIATIONS.families, (*shape[:2], 1)) + rng.normal(0, DEVIATIONS.tables, shape)
        logs = parts + rng.normal(0, variance**0.5, shape)
        names = [f"{family}" for family in range(families) for _ in range(tables)]
        fixed = np.full(len(names), variance), np.full(len(names), trials), names
        covered = []
        for number, study in enumerate(logs):
            known = components(study.ravel(), *fixed)
            plausible = components(study.ravel(), *fixed, draws=1000, seed=number)
            found = power_at(RATIOS[0], families, tables, trials, known, plausible)
            covered.append(found.low <= float(power(RATIOS[0], families, sd)) <= found.high)
        print(f"{families} families of {tables} tables, {trials} trials: range covers {np.mean(covered):.1%}")
        for ratio in RATIOS:
            shown = [on_other_families(study.mean(axis=1) + np.log(ratio)).p < 0.05 for study in logs]
            predicted = float(power(ratio, families, sd))
            print(f"   ratio {ratio}: shown {np.mean(shown):.1%}, predicted {predicted:.1%}")


if __name__ == "__main__":
    main()
