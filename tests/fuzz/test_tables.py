"""Mutated tables: CSV files, datasheets, replicates and table folders."""

import tomllib

from fuzzing.cases import cases
from fuzzing.mutations import mutate_bytes, mutate_csv, mutate_value, odd_file, pick, toml
from fuzzing.world import hashed

OBJECTIVES = ("--objectives", "bleu,seconds")


def look(sandbox, rng, name):
    """Use an installed table in one of the ways there are."""
    commands = [
        ("tables", "show", name),
        ("tables", "check", name),
        ("pareto", name, *OBJECTIVES),
        ("pareto", name, *OBJECTIVES, "--format", "csv"),
        (
            "run",
            "--tables",
            name,
            "--methods",
            "RS",
            "--trials",
            "1",
            "--jobs",
            "1",
            "--out",
            "results/x",
            "--quiet",
        ),
        ("tables", "list"),
    ]
    if rng.random() < 0.1:
        commands = [("tables", "analyze", name)]
    command = commands[int(rng.integers(len(commands)))]
    sandbox.run(*command, into=["work/results/x"])


def add_and_look(sandbox, rng, *source):
    """Install a table, and use it if it could be installed."""
    if sandbox.run("tables", "add", *source, into=["home/tables"]).code == 0:
        (name,) = [p.name for p in (sandbox.home / "tables").iterdir()]
        look(sandbox, rng, name)


@cases(250)
def test_datasheets_of_csv_files(empty, world, rng):
    sheet = tomllib.loads(world["source"]["work/toy.toml"].decode())
    text = toml(mutate_value(rng, sheet, empty.root)).encode()
    empty.write(world["source"])
    empty.mutated("work/toy.toml", text)
    add_and_look(empty, rng, "toy.csv")


@cases(240)
def test_csv_files(empty, world, rng):
    empty.write(world["source"])
    content = world["source"]["work/toy.csv"]
    content = mutate_csv(rng, content) if rng.random() < 0.7 else mutate_bytes(rng, content)
    empty.mutated("work/toy.csv", content)
    if rng.random() < 0.3:
        empty.run("pareto", "toy.csv", "--objectives", "bleu:max,seconds:min")
    else:
        add_and_look(empty, rng, "toy.csv")


@cases(80)
def test_source_files_that_are_something_else(empty, world, rng):
    empty.write(world["source"])
    name = pick(rng, ("work/toy.toml", "work/toy.csv"))
    if rng.random() < 0.5:
        others = [*world["source"].values(), *world["results"].values()]
        empty.mutated(name, mutate_bytes(rng, world["source"][name], others))
    else:
        empty.told.append(f"{name}: {odd_file(rng, empty.root / name, empty.root)}")
    add_and_look(empty, rng, "toy.csv")


@cases(240)
def test_installed_folders(empty, world, rng):
    """A table folder in place, or given to be installed, with any of its three files mutated."""
    files = dict(world["table"])
    name = pick(rng, ("datasheet.toml", "datasheet.toml", "table.csv", "replicates.csv"))
    path = f"home/tables/toy/{name}"
    if name == "datasheet.toml":
        sheet = mutate_value(rng, tomllib.loads(files[path].decode()), empty.root)
        files[path] = toml(sheet).encode()
    else:
        change = mutate_csv if rng.random() < 0.7 else mutate_bytes
        files[path] = change(rng, files[path])
        if rng.random() < 0.9:
            files = hashed(files, "home/tables/toy")
    empty.write(files)
    empty.mutated(path, files[path])
    look(empty, rng, "toy") if rng.random() < 0.7 else empty.run("tables", "check", "toy")
    if rng.random() < 0.3:
        (empty.home / "tables" / "toy").rename(empty.work / "given")
        add_and_look(empty, rng, "given")


@cases(80)
def test_installed_folders_with_odd_files(empty, world, rng):
    empty.write(world["table"])
    name = pick(rng, ("datasheet.toml", "table.csv", "replicates.csv", "spec.toml", "ledger.jsonl", ""))
    path = empty.home / "tables" / "toy" / name
    if rng.random() < 0.5 or not name:
        empty.told.append(f"{path}: {odd_file(rng, path, empty.root)}")
    else:
        others = [*world["source"].values(), *world["results"].values()]
        content = path.read_bytes() if path.is_file() else b"x"
        empty.mutated(f"home/tables/toy/{name}", mutate_bytes(rng, content, others))
    look(empty, rng, "toy")
    if path.parent.is_dir() and rng.random() < 0.6:
        path.parent.rename(empty.work / "given")
        add_and_look(empty, rng, "given")


@cases(50)
def test_analyses_of_tables_that_can_be_installed(empty, world, rng):
    """Only numbers change, so that most of these tables are valid and odd: constant, huge, full of holes."""
    rows = [line.split(",") for line in world["source"]["work/toy.csv"].decode().splitlines()]
    column = int(rng.integers(2, 5))
    value = pick(rng, ("", "0", "1e308", "-1e308", "5e-324", "1e-300", "7"))
    share = pick(rng, (0.2, 0.7, 1.0))
    for cells in rows[1:]:
        if rng.random() < share:
            cells[column] = value
    empty.write(world["source"])
    empty.mutated("work/toy.csv", ("\n".join(map(",".join, rows)) + "\n").encode())
    if empty.run("tables", "add", "toy.csv", into=["home/tables"]).code == 0:
        for command in (
            ("check", "toy"),
            ("show", "toy"),
            ("analyze", "toy", "--set", f"metric={rows[0][column]}"),
        ):
            if command[0] != "analyze" or rng.random() < 0.25:
                empty.run("tables", *command)
