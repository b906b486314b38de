"""The file from which a user's own method starts."""

from __future__ import annotations

import keyword
from pathlib import Path

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import create_file, no_folder
from hpobench_nmt.methods import KNOWN

_TEMPLATE = '''"""An HPO method of my own. These commands check it, compare it with others, and debug it:

hpobench-nmt methods --check {file}:{name}
hpobench-nmt run --methods RS,{file}:{name} --tables sotu-ngram --trials 20
python -m pdb -c continue -m hpobench_nmt run --debug --methods {file}:{name} --tables sotu-ngram
"""

import numpy as np


class {name}:
    """Look up a random row, or the unseen row that is nearest to the best row so far.

    problem: the candidates and the rules, without metrics. `problem.features` is scaled to [0, 1], shape
        (rows, features). `problem.config(row)` is a row's configuration, `problem.n_objectives` is the
        number of objectives, and `problem.lookups` is the maximum number of look-ups of a trial.
    rng: the trial's NumPy generator. If all random numbers come from it, the same seed gives the same rows.
    greedy: the share of rows near the best, a setting. --methods "{file}:{name}(greedy=0.9)" changes it.
    """

    def __init__(self, problem, rng, greedy=0.5):
        self.features, self.rng, self.greedy = problem.features, rng, greedy
        self.unseen = np.ones(len(problem.features), dtype=bool)
        self.best, self.best_loss = None, np.inf

    def ask(self):
        """Return the next row to look up, which must be unseen."""
        rows = np.flatnonzero(self.unseen)
        if self.best is None or self.rng.random() >= self.greedy:
            return int(self.rng.choice(rows))
        distances = ((self.features[rows] - self.features[self.best]) ** 2).sum(axis=1)
        return int(rows[distances.argmin()])

    def tell(self, row, losses):
        """Receive the losses of a row, minimised, shape (n_objectives,); NaN if its training failed.

        The first rows are the rows of the initial design, which `ask` did not choose.
        """
        self.unseen[row] = False
        loss = losses.sum()  # with several objectives, weigh them as you like
        if loss < self.best_loss:  # never true of NaN
            self.best, self.best_loss = row, loss
'''


def write_skeleton(path: Path) -> str:
    """Write a working method to a new Python file, and return its spec, "FILE.py:CLASS".

    The class is named after the file: my_method.py has MyMethod.

    Raises:
        InputError: the file exists, its folder does not exist, or its name is not valid for a module or gives
            the class the name of a method of this package.
        RunError: the file cannot be written.
    """
    name = "".join(part[:1].upper() + part[1:] for part in path.stem.split("_"))
    named = path.stem.isidentifier() and name.isidentifier() and not keyword.iskeyword(name)
    if path.suffix != ".py" or not named:
        raise InputError(f"{path}: the file of a method needs a name such as my_method.py.")
    taken = {known.casefold(): known for known in KNOWN}.get(name.casefold())
    if taken:
        raise InputError(f"{path}: class {name} would be named like the method {taken}. Give another name.")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: {no_folder(path.parent)}.")
    create_file(path, _TEMPLATE.format(file=path, name=name))
    return f"{path}:{name}"
