"""A sweeper for Hydra 1.3: `pip install hydra-core hpobench-nmt`. Copy this folder beside your program.

    python train.py --multirun hydra/sweeper=hpobench hydra.sweeper.n_trials=30 \\
        'lr=tag(log, interval(1e-5, 1e-1))' 'layers=range(2, 8)' 'optimizer=choice(sgd, adam)'

The program returns its loss from the function of `hydra.main`. A trial that raises an exception has failed.
The best configuration is in optimization_results.yaml in the folder of the sweep.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.core.utils import JobStatus
from hydra.plugins.sweeper import Sweeper
from omegaconf import OmegaConf

import hpobench_nmt as hb


@dataclass
class Config:
    """The settings of the sweeper, below hydra.sweeper."""

    _target_: str = "hydra_plugins.hpobench_sweeper.HpobenchSweeper"
    n_trials: int = 20
    n_jobs: int = 1  # trials at a time, which Hydra's launcher may run in parallel
    direction: str = "minimize"
    method: str = "BO_auto"
    seed: int = 0
    params: dict[str, str] = field(default_factory=dict)


ConfigStore.instance().store(group="hydra/sweeper", name="hpobench", node=Config, provider="hpobench_nmt")


class HpobenchSweeper(Sweeper):
    """Lets a method of hpobench-nmt choose the overrides of each job."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Config(**settings)

    def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
        """Called by Hydra before the sweep."""
        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Run all trials, and write the best configuration."""
        settings = self.settings
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        given = parser.parse_overrides([*(f"{k}={v}" for k, v in settings.params.items()), *arguments])
        space = {each.get_key_element(): axis_of(each) for each in given if each.is_sweep_override()}
        fixed = [each.input_line for each in given if not each.is_sweep_override()]
        optimizer = hb.Optimizer(space, settings.method, budget=settings.n_trials, seed=settings.seed)
        sign = -1.0 if settings.direction == "maximize" else 1.0
        folder = Path(self.config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        for first in range(0, settings.n_trials, settings.n_jobs):
            configs = optimizer.ask(min(settings.n_jobs, settings.n_trials - first))
            jobs = [[*fixed, *(f"{name}={value}" for name, value in config.items())] for config in configs]
            self.validate_batch_is_legal(jobs)
            for config, ended in zip(configs, self.launcher.launch(jobs, first), strict=True):
                done = ended.status == JobStatus.COMPLETED
                optimizer.tell(config, sign * ended.return_value if done else None)
        best = optimizer.recommend()
        OmegaConf.save({"name": "hpobench", "best_params": best}, folder / "optimization_results.yaml")


def axis_of(override: Override) -> Any:
    """The values of an override, as `hb.Optimizer` takes them."""
    sweep = override.value()
    if override.is_interval_sweep():
        return (sweep.start, sweep.end, "log" if "log" in sweep.tags else "linear")
    values = list(override.sweep_iterator())
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return values if numbers else list(override.sweep_string_iterator())
