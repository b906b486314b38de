"""A training with Hydra, tuned by: -- python hydra_train.py lr={learning_rate} layers={layers}"""

import json
from dataclasses import dataclass

import hydra
from hydra.core.config_store import ConfigStore


@dataclass
class Config:
    """The settings of the training."""

    lr: float = 0.001
    layers: int = 2


ConfigStore.instance().store(name="config", node=Config)


@hydra.main(version_base=None, config_name="config")
def main(config: Config) -> None:
    """Train, and print the result as the last line."""
    val_loss = (config.lr - 0.01) ** 2 + 0.001 * abs(config.layers - 4)
    print(json.dumps({"val_loss": val_loss}))


main()
