"""A training with Lightning, tuned by: -- python lightning_train.py --lr {learning_rate} --layers {layers}"""

import argparse
import json

import lightning
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--seed", type=int, default=0)
given = parser.parse_args()
lightning.seed_everything(given.seed)


class Model(lightning.LightningModule):
    """Some layers that fit a sine."""

    def __init__(self) -> None:
        super().__init__()
        hidden = [layer for _ in range(given.layers) for layer in (nn.Linear(16, 16), nn.Tanh())]
        self.layers = nn.Sequential(nn.Linear(1, 16), *hidden, nn.Linear(16, 1))

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        """The mean squared error of a batch."""
        x, y = batch
        return nn.functional.mse_loss(self.layers(x), y)

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        """The loss of a batch."""
        return self.loss(batch)

    def validation_step(self, batch: list[torch.Tensor], number: int) -> None:
        """Log the loss, which the trainer averages over an epoch."""
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW with the learning rate that is tuned."""
        return torch.optim.AdamW(self.parameters(), lr=given.lr)


class Report(lightning.Callback):
    """Prints a line of JSON after every epoch, so that [curve] can stop poor trainings early."""

    def on_validation_epoch_end(self, trainer: lightning.Trainer, model: lightning.LightningModule) -> None:
        """Print the epoch and its loss, but not those of the check before the training."""
        if not trainer.sanity_checking:
            loss = float(trainer.callback_metrics["val_loss"])
            print(json.dumps({"epoch": trainer.current_epoch + 1, "val_loss": loss}))


x = torch.rand(256, 1) * 2 - 1
data = torch.utils.data.TensorDataset(x, torch.sin(3 * x))
train, dev = torch.utils.data.random_split(data, [192, 64])
trainer = lightning.Trainer(
    max_epochs=9, accelerator="cpu", callbacks=[Report()], logger=False, enable_checkpointing=False
)
trainer.fit(
    Model(),
    torch.utils.data.DataLoader(train, 32, shuffle=True),
    torch.utils.data.DataLoader(dev, 64),
)
