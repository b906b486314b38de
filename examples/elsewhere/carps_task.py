"""A table as a task of CARP-S: `pip install carps 'hpobench-nmt[smac]'`.

    python examples/elsewhere/carps_task.py lohelp-de-en > configs/task/hpobench_nmt/lohelp-de-en.yaml

The YAML names the class below, so this file must be importable where CARP-S runs. A configuration without a
row gets the losses of the nearest row, or infinite losses with `otherwise: none`.
"""

from __future__ import annotations

import math
import sys

import yaml
from carps.objective_functions.objective_function import ObjectiveFunction
from carps.utils.trials import StatusType, TrialInfo, TrialValue
from ConfigSpace import ConfigurationSpace

import hpobench_nmt as hb


class TableFunction(ObjectiveFunction):
    """Losses of an installed table, to be minimised."""

    def __init__(self, name: str, objectives: list[str], otherwise: str = "nearest", loggers=None) -> None:
        super().__init__(loggers)
        table = hb.load_table(name)
        self._space, self._losses = table.space.to_configspace(), table.function(objectives, otherwise)
        self._count = len(objectives)

    @property
    def configspace(self) -> ConfigurationSpace:
        return self._space

    def _evaluate(self, trial_info: TrialInfo) -> TrialValue:
        losses = self._losses(dict(trial_info.config))
        if losses is None:
            failed = math.inf if self._count == 1 else [math.inf] * self._count
            return TrialValue(cost=failed, status=StatusType.CRASHED)
        return TrialValue(cost=losses)


def task(name: str, trials: int = 50) -> dict:
    """The configuration of a task, in the form of CARP-S's own tasks."""
    table = hb.load_table(name)
    objectives = list(table.objectives[:1])
    kinds = [axis.kind for axis in table.space]
    space = table.space.to_configspace().to_serialized_dict()
    return {
        "benchmark_id": "hpobench-nmt",
        "task_id": f"hpobench-nmt/{name}",
        "task": {
            "_target_": "carps.utils.task.Task",
            "name": f"hpobench-nmt/{name}",
            "seed": "${seed}",
            "objective_function": {
                "_target_": "carps_task.TableFunction",
                "name": name,
                "objectives": objectives,
            },
            "input_space": {
                "_target_": "carps.utils.task.InputSpace",
                "configuration_space": {
                    "_target_": "ConfigSpace.configuration_space.ConfigurationSpace.from_serialized_dict",
                    "_convert_": "object",
                    "d": space,
                },
            },
            "output_space": {"_target_": "carps.utils.task.OutputSpace", "objectives": objectives},
            "optimization_resources": {
                "_target_": "carps.utils.task.OptimizationResources",
                "n_trials": trials,
            },
            "metadata": {
                "_target_": "carps.utils.task.TaskMetadata",
                "domain": "language",
                "objective_function_approximation": "tabular",
                "deterministic": True,
                "dimensions": len(kinds),
                "search_space_n_categoricals": kinds.count("categorical"),
                "search_space_n_ordinals": len(kinds) - kinds.count("categorical"),
                "search_space_n_integers": 0,
                "search_space_n_floats": 0,
                "search_space_has_conditionals": any(axis.active_if for axis in table.space),
                "search_space_has_forbiddens": False,
                "search_space_has_priors": False,
                "has_constraints": False,
                "has_virtual_time": False,
            },
        },
    }


if __name__ == "__main__":
    print("# @package _global_")
    print(yaml.safe_dump(task(sys.argv[1]), sort_keys=False), end="")
