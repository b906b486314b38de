"""HEBO as a program: it runs in an environment of its own, because HEBO pins other versions of libraries.

    python -m venv hebo && hebo/bin/pip install HEBO
    hpobench-nmt run --methods "RS,cmd(seconds=300):hebo/bin/python hebo_agent.py" --tables lohelp-de-en

HEBO suggests a point in the box of the hyperparameters, and we look up the nearest row. HEBO then observes
the values of that row. Log-scaled hyperparameters are searched by their logarithm, ordinal ones by their
place. A failed training counts as the worst training so far.
"""

import json
import math
import sys

import numpy as np
import pandas as pd
from hebo.design_space.design_space import DesignSpace
from hebo.optimizers.hebo import HEBO


def coded(h, value):
    """A value in the form that HEBO searches: a logarithm, a number, or a label."""
    if h["kind"] == "ordinal":
        return float(h["values"].index(value) if value is not None else -1)
    if h["kind"] != "numeric":
        return str(value)
    if value is None:  # an inactive hyperparameter counts as the smallest value
        value = min(h["values"])
    return math.log(value) if h.get("scale") == "log" else float(value)


class Search:
    """HEBO on the rows of a table."""

    def __init__(self, problem):
        axes = problem["hyperparameters"]
        self.names = [h["name"] for h in axes]
        rows = [[coded(h, v) for h, v in zip(axes, row, strict=True)] for row in problem["rows"]]
        self.frame = pd.DataFrame(rows, columns=self.names)
        numeric = [h["name"] for h in axes if h["kind"] != "categorical"]
        self.spans = {n: float(np.ptp(self.frame[n])) for n in numeric}
        space = DesignSpace().parse([self.axis(name) for name in self.names])
        self.hebo = HEBO(space, rand_sample=3, scramble_seed=problem["seed"] % 2**31)
        self.losses = {}

    def axis(self, name):
        column = self.frame[name]
        if self.spans.get(name):
            return {"name": name, "type": "num", "lb": column.min(), "ub": column.max()}
        return {"name": name, "type": "cat", "categories": sorted(set(column))}

    def tell(self, row, loss):
        self.losses[row] = max(self.losses.values(), default=0.0) if loss is None else loss
        self.hebo.observe(self.frame.iloc[[row]], np.array([[self.losses[row]]]))

    def ask(self, running):
        point, away = self.hebo.suggest(1).iloc[0], np.zeros(len(self.frame))
        for name in self.names:
            span = self.spans.get(name)
            away += abs(self.frame[name] - point[name]) / span if span else self.frame[name] != point[name]
        away[[*self.losses, *running]] = np.inf
        return int(np.argmin(away))


def main():
    answers, sys.stdout = sys.stdout, sys.stderr  # HEBO prints, and answers go to stdout
    for line in sys.stdin:
        message = json.loads(line)
        if message["message"] == "problem":
            search = Search(message)
        elif message["message"] == "tell":
            search.tell(message["row"], message["losses"][0])
        elif message["message"] == "ask":
            print(json.dumps({"row": search.ask(message["running"])}), file=answers, flush=True)


if __name__ == "__main__":
    main()
