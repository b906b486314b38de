"""A naive event loop on the clock, and a method that asks it for anything that makes sense."""

from __future__ import annotations

import math
from types import SimpleNamespace


class Erratic:
    """Any request that makes sense, at random, or none where it may wait."""

    def __init__(self, problem, rng):
        self.rng, self.problem, self.have, self.log = rng, problem, {}, []

    def suggest(self, running):
        every = range(len(self.problem.features))
        rows = [r for r in every if r not in running and self.have.get(r, 0) < math.inf]
        if running and (not rows or self.rng.random() < 0.2):
            return None
        row = int(self.rng.choice(rows))
        more = [r for r in [*self.problem.resources, math.inf] if r > self.have.get(row, 0)]
        return row, more[int(self.rng.integers(len(more)))]

    def observe(self, progress):
        self.have[progress.row] = math.inf if progress.done else progress.resources[-1]
        self.log.append((progress.row, len(progress.losses), progress.done, progress.time))


def naive(problem, given, method, initial):
    """The same as the loop, with lists that are searched and no state but what is written down."""
    now, number, jobs, past = 0.0, 0, [], []
    starts = given.starts.tolist()
    waiting = list(initial)
    while True:
        for _ in range(problem.workers):
            idle = [w for w in range(problem.workers) if all(w != job["worker"] for job in jobs)]
            last = {w: [p for p in past if p["worker"] == w][-1:] for w in idle}
            ended = {p["row"] for p in past if p["done"]}
            free = set(range(len(given))) - ended - {job["row"] for job in jobs}
            if not idle or not free:
                break
            if waiting:
                row, resource = waiting.pop(0), math.inf
            else:
                answer = method.suggest({job["row"]: job["asked"] for job in jobs})
                if answer is None:
                    break
                row, resource = answer
            own = [w for w in idle if last[w] and last[w][0]["row"] == row]
            worker = own[0] if own else idle[0]
            before = max([p["checkpoint"] for p in past if p["row"] == row], default=0)
            curve = range(starts[row], starts[row + 1])
            reached = [i for i in curve if given.resources[i] >= resource][:1] or [curve[-1]]
            cost = given.costs[reached[0]]
            goes_on = bool(own) and last[worker][0]["finish"] == now
            if before and (given.resume or goes_on):
                cost = cost - given.costs[starts[row] + before - 1]
            job = {"row": row, "asked": resource, "worker": worker, "start": now, "finish": now + cost}
            job |= {"checkpoint": reached[0] - starts[row] + 1, "done": reached[0] == curve[-1]}
            jobs.append({**job, "number": number})
            number += 1
        if not jobs:
            return past
        now = min(job["finish"] for job in jobs)
        finished = sorted((j for j in jobs if j["finish"] == now), key=lambda job: job["number"])
        jobs = [job for job in jobs if job["finish"] != now]
        for job in finished:
            past.append(job)
            first = starts[job["row"]]
            here = slice(first, first + job["checkpoint"])
            curves = {"resources": given.resources[here], "losses": given.losses[here]}
            method.observe(SimpleNamespace(**job, **curves, time=now))
