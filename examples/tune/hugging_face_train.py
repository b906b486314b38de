"""A training with Hugging Face's Trainer, whose options are those of TrainingArguments. It is tuned by:

-- python hugging_face_train.py --learning_rate {learning_rate} --layers {layers} --output_dir {folder}
"""

import json
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    HfArgumentParser,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)


@dataclass
class Shape:
    """The model's hyperparameters, which become options as well."""

    layers: int = 1


class Report(TrainerCallback):
    """Prints a line of JSON after every evaluation."""

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any, **others: Any) -> None:
        """Print the epoch and the loss on dev."""
        print(json.dumps({"epoch": round(state.epoch), "val_loss": metrics["eval_loss"]}))


shape, given = HfArgumentParser((Shape, TrainingArguments)).parse_args_into_dataclasses()
set_seed(given.seed)
counting = torch.arange(64 * 16).reshape(64, 16) % 50
rows = [{"input_ids": row, "labels": row} for row in counting]
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=shape.layers, n_head=2))
given.eval_strategy = "epoch"
Trainer(model, given, train_dataset=rows[:48], eval_dataset=rows[48:], callbacks=[Report()]).train()
