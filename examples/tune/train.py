"""A ridge regression by gradient descent; its hyperparameters are arguments."""

import argparse
import json

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--decay", type=float, default=0.0)
parser.add_argument("--degree", type=int, default=3)
parser.add_argument("--epochs", type=int, default=27)
parser.add_argument("--seed", type=int, default=0)
given = parser.parse_args()

rng = np.random.default_rng(given.seed)
x = rng.uniform(-1, 1, 200)
y = np.sin(3 * x) + 0.1 * rng.standard_normal(200)
features = np.vander(x, given.degree + 1)
weights = np.zeros(given.degree + 1)
for epoch in range(1, given.epochs + 1):
    for _ in range(20):
        errors = features[:150] @ weights - y[:150]
        weights -= given.lr * (features[:150].T @ errors / 150 + given.decay * weights)
    val_loss = float(np.mean((features[150:] @ weights - y[150:]) ** 2))
    print(json.dumps({"epoch": epoch, "val_loss": val_loss}))
