"""ASHA, successive halving and Hyperband by the letter: everything is worked out anew at every call."""

from __future__ import annotations

import itertools
import math


def training_levels(problem, eta):
    """r, r eta, r eta^2, ... below the largest resource, and the end of a training."""
    trained = [r for r in problem.resources if r > 0]
    levels = itertools.takewhile(
        lambda level: level < max(trained), (min(trained) * eta**k for k in itertools.count())
    )
    return [*levels, math.inf]


def loss_so_far(progress):
    """The first loss of the best checkpoint; infinite without one."""
    known = [loss for loss in progress.losses[:, 0].tolist() if not math.isnan(loss)]
    return min(known, default=math.inf)


class NaiveASHA:
    """Li et al. 2020, Algorithm 2, by the letter: every rung is sorted anew at every call."""

    def __init__(self, problem, rng, eta=3):
        self.rungs = [[] for _ in training_levels(problem, eta)]
        self.levels = training_levels(problem, eta)
        self.order = rng.permutation(len(problem.features)).tolist()[::-1]
        self.problem, self.eta, self.begun, self.ended, self.arrived = problem, eta, set(), set(), 0

    def suggest(self, running):
        self.begun |= set(running)
        for k in range(len(self.levels) - 2, -1, -1):
            best = self.ordered(self.rungs[k])[: len(self.rungs[k]) // self.eta]
            above = {row for rung in self.rungs[k + 1 :] for *_, row in rung}
            for loss, _, row in best:
                if row in self.ended and row not in above:
                    self.rungs[k + 1].append((loss, self.arrived, row))
                    return self.suggest(running)
                if row not in above and row not in running:
                    return row, self.levels[k + 1]
        new = [row for row in self.order if row not in self.begun]
        if new and len(self.begun) < self.problem.lookups:
            return new[0], self.levels[0]
        for k in range(len(self.levels) - 2, -1, -1):
            above = {row for rung in self.rungs[k + 1 :] for *_, row in rung}
            for _, _, row in sorted(self.rungs[k]):
                if row not in above and row not in running and row not in self.ended:
                    return row, self.levels[k + 1]
        return None

    def ordered(self, rung):
        return sorted(rung)

    def observe(self, progress):
        self.arrived += 1
        self.begun.add(progress.row)
        loss = loss_so_far(progress)
        came = [k for k, level in enumerate(self.levels) if level <= progress.resources[-1]]
        there = [k for k, rung in enumerate(self.rungs) if any(row == progress.row for *_, row in rung)]
        if progress.done:
            self.ended.add(progress.row)
            came.append(max(there, default=-1) + 1)
        for k in sorted(set(came) - set(there)):
            self.rungs[k].append((loss, self.arrived, progress.row))


class NaiveMOASHA(NaiveASHA):
    """Schmucker et al. 2021: fronts are peeled off one by one, and each is ordered by an epsilon-net."""

    def __init__(self, problem, rng, eta=3):
        super().__init__(problem, rng, eta)
        self.losses, self.points = {}, {}

    def observe(self, progress):
        """Of several losses, those of the best checkpoint when the row came to a rung stay with it."""
        best = min(range(len(progress.losses)), key=lambda k: (nan_last(progress.losses[k, 0]), k))
        losses = progress.losses[best].tolist()
        if any(map(math.isnan, losses)):
            losses = [math.inf] * len(losses)
        before = [len(rung) for rung in self.rungs]
        super().observe(progress)
        for k, rung in enumerate(self.rungs):
            self.losses |= {(k, *entry): losses for entry in rung[before[k] :]}

    def ordered(self, rung):
        k = next(k for k, each in enumerate(self.rungs) if each is rung)
        for entry in rung:  # of those that had ended, from the rung below
            if (k, *entry) not in self.losses:
                below = next(each for each in self.rungs[k - 1] if each[2] == entry[2])
                self.losses[k, *entry] = self.losses[k - 1, *below]
        self.points = {entry: self.losses[k, *entry] for entry in rung}

        left, found = sorted(rung, key=lambda entry: entry[1]), []
        while left:
            front = [a for a in left if not any(self.dominates(b, a) for b in left)]
            found += self.net(front)
            left = [a for a in left if a not in front]
        return found

    def dominates(self, a, b):
        a, b = self.points[a], self.points[b]
        return a != b and all(x <= y for x, y in zip(a, b, strict=True))

    def net(self, front):
        points = [self.points[entry] for entry in front]
        spans = [(min(column), max(column)) for column in zip(*points, strict=True)]

        def distance(a, b):
            return sum(
                ((x - y) / (high - low)) ** 2
                for x, y, (low, high) in zip(points[a], points[b], spans, strict=True)
                if low < high < math.inf
            )

        order = [min(range(len(front)), key=lambda i: points[i][0])]
        while len(order) < len(front):
            rest = [i for i in range(len(front)) if i not in order]
            order.append(max(rest, key=lambda i: (min(distance(i, j) for j in order), -i)))
        return [front[i] for i in order]


def nan_last(value):
    return math.inf if math.isnan(value) else value


class NaiveBrackets:
    """Everything is worked out anew at every call, from what was observed."""

    def __init__(self, problem, rng, sizes, eta=3):
        self.levels = training_levels(problem, eta)
        self.order = rng.permutation(len(problem.features)).tolist()[::-1]
        self.problem, self.sizes, self.eta = problem, sizes, eta
        self.offered, self.begun, self.history, self.ended, self.events = [], set(), {}, set(), 0

    def reached(self, row):
        return self.history[row][-1][0] if row in self.history else 0

    def loss_at(self, row, level):
        return next(loss for reached, loss, _ in self.history[row] if reached > level)

    def suggest(self, running):
        self.begun |= set(running)
        new = [row for row in self.order if row not in self.begun]
        room = bool(new) and len(self.begun) < self.problem.lookups
        left = [row for row in self.offered if row in self.begun]
        for level, size in itertools.cycle(self.sizes):
            rows, left = left[:size], left[size:]
            if len(rows) < size and room:
                self.offered += [] if new[0] in self.offered else [new[0]]
                return new[0], self.levels[level]
            if not rows:
                return self.left_over(running)
            for here in range(level, len(self.levels)):
                behind = [row for row in rows if self.reached(row) <= here]
                for row in behind:
                    if row not in running:
                        return row, self.levels[here]
                if behind:
                    return None
                rows = sorted(rows, key=lambda row: self.loss_at(row, here))
                rows = rows[: max(len(rows) // self.eta, 1)]

    def left_over(self, running):
        open_rows = [row for row in self.history if row not in self.ended and row not in running]
        if not open_rows:
            return None
        latest = {row: self.history[row][-1] for row in open_rows}
        row = min(open_rows, key=lambda row: (-latest[row][0], *latest[row][1:]))
        return row, self.levels[latest[row][0]]

    def observe(self, progress):
        self.events += 1
        self.begun.add(progress.row)
        loss = loss_so_far(progress)
        reached = sum(level <= progress.resources[-1] for level in self.levels)
        if progress.done:
            self.ended.add(progress.row)
            reached = len(self.levels)
        self.history.setdefault(progress.row, []).append((reached, loss, self.events))
