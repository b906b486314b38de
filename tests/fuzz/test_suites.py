"""Mutated suites, the figures that they are compared with, methods and names on the command line."""

import tomllib

from fuzzing.cases import cases
from fuzzing.mutations import mutate_bytes, mutate_csv, mutate_value, odd, pick, toml

RUN = ("--jobs", "1", "--trials", "1", "--quiet", "--out", "results/x")
PUBLISHED = "method,table,metric,mean,std\nRS,toy,ftb,6.5,3.1\nRS,toy,ftc,5,2\nRS,toy,fb,0.3,0.2\n"


def own_suite(content):
    """A suite without what would only make it slow."""
    if isinstance(content.get("methods"), list) and len(content["methods"]) > 3:
        content["methods"] = ["RS"]
    return toml(content).encode()


@cases(300)
def test_suites(empty, world, rng):
    empty.write(world["table"])
    content = tomllib.loads(world["suite"]["work/mine.toml"].decode())
    if rng.random() < 0.85:
        text = own_suite(mutate_value(rng, content, empty.root))
    else:
        text = mutate_bytes(rng, world["suite"]["work/mine.toml"], world["results"].values())
    empty.mutated("work/mine.toml", text)
    empty.run("run", "mine.toml", *RUN, into=["work/results"])


@cases(60)
def test_published_figures(empty, world, rng):
    empty.write(world["table"])
    name = "figures.csv" if rng.random() < 0.7 else odd(rng, empty.root)
    content = tomllib.loads(world["suite"]["work/mine.toml"].decode()) | {"published": name, "trials": 1}
    empty.mutated(
        "work/mine.toml",
        toml({k: v for k, v in content.items() if not isinstance(v, dict)} | content).encode(),
    )
    change = mutate_csv if rng.random() < 0.7 else mutate_bytes
    empty.mutated("work/figures.csv", change(rng, PUBLISHED.encode()))
    done = empty.run("run", "mine.toml", "--jobs", "1", "--out", "results/x", into=["work/results"])
    if done.code == 0:
        empty.run("score", "results/x", "--format", pick(rng, ("text", "csv", "json", "latex")))
        if rng.random() < 0.1:
            empty.run("report", "results/x", "--jobs", "1", "--out", "out.html", into=["work/out.html"])


METHOD = """
import numpy as np

class Mine:
    def __init__(self, problem, rng):
        self.order = iter(rng.permutation(len(problem.features)))
        {init}

    def ask(self):
        {ask}
        return next(self.order)

    def tell(self, index, losses):
        {tell}
"""
ODD_LINES = (
    "raise ValueError('caf\\udce9')",
    "raise ValueError('\\x1b[31mred\\n')",
    "raise SystemExit(3)",
    "raise MemoryError",
    "return float('nan')",
    "return 'x' * 70_000",
    "return None",
    "return 10**400",
    "return -1",
    "return np.array([1, 2])",
    "return {}",
    "raise type('\\x1b[1m', (Exception,), {})()",
    "losses[...] = 0",
    "assert False",
)


@cases(50)
def test_methods_check(empty, rng):
    """Methods that fail in odd ways, and files that are none: exit code 1 says which check failed."""
    lines = {"init": "pass", "ask": "pass", "tell": "pass"}
    lines[pick(rng, lines)] = pick(rng, ODD_LINES)
    text = METHOD.format(**lines).encode()
    if rng.random() < 0.5:
        text = mutate_bytes(rng, text)
    empty.mutated("work/mine.py", text)
    done = empty.run("methods", "--check", "mine.py:Mine", codes=(0, 1, 2))
    assert done.code != 1 or "FAILED" in done.out


COMMANDS = (
    ("tables", "show", "{}"),
    ("tables", "check", "{}"),
    ("tables", "analyze", "{}"),
    ("tables", "analyze", "toy", "--set", "metric={}"),
    ("tables", "analyze", "toy", "--set", "best_share={}"),
    ("tables", "analyze", "toy", "--set", "tolerance={}"),
    ("tables", "add", "{}"),
    ("tables", "add", "toy.csv", "--datasheet", "{}"),
    ("tables", "build", "{}"),
    ("tables", "fetch", "{}"),
    ("tables", "fetch", "nmthpo", "--from", "{}"),
    ("pareto", "{}", "--objectives", "bleu,seconds"),
    ("pareto", "toy", "--objectives", "{}"),
    ("pareto", "toy", "--objectives", "bleu,seconds", "--format", "{}"),
    ("run", "{}", "--methods", "RS", *RUN),
    ("run", "--tables", "{}", "--methods", "RS", *RUN),
    ("run", "--tables", "toy", "--methods", "{}", *RUN),
    ("run", "--tables", "toy", "--methods", "RS", "--objectives", "{}", *RUN),
    ("run", "--tables", "toy", "--methods", "RS", "--backend", "{}", *RUN),
    ("run", "--tables", "toy", "--methods", "RS", "--seed", "{}", *RUN),
    ("run", "--tables", "toy", "--methods", "RS", "--lookups", "{}", *RUN),
    ("score", "{}"),
    ("score", "results/r", "--format", "{}"),
    ("report", "{}"),
    ("score", "{}", "--format", "sequences", "--out", "out"),
    ("score", "results/r", "--out", "out", "--format", "{}"),
    ("methods", "--check", "{}"),
    ("train", "{}", "--dry-run"),
    ("{}",),
    ("tables", "{}"),
)


@cases(190)
def test_names_on_the_command_line(empty, world, rng):
    empty.write({**world["table"], **world["source"], **world["suite"], **world["results"]})
    value = odd(rng, empty.root)
    text = str(value)[:5000].replace("\0", "")
    command = [part.replace("{}", text) for part in pick(rng, COMMANDS)]
    empty.run(*command, into=["work/results", "work/out", "home"])
