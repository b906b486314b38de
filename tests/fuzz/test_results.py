"""Mutated results folders: manifests, look-ups, timings and blocks of runs that were stopped."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
from fuzzing.cases import cases
from fuzzing.mutations import (
    json_text,
    mutate_bytes,
    mutate_csv,
    mutate_value,
    odd_column,
    odd_file,
    pick,
)

FOLDER = "work/results/r"
LOOKUPS = f"{FOLDER}/observations/toy/RS.parquet"
PART = f"{FOLDER}/unfinished/toy/RS/000000.parquet"
RUN = ("run", "mine.toml", "--jobs", "1", "--quiet", "--out", "results/r")


def use(sandbox, rng, codes=(0, 2), report=0.01):
    """Score, report on, export or go on with the results in one or two ways."""
    commands = [
        ("score", "results/r"),
        ("score", "results/r", "--format", "csv"),
        ("score", "results/r", "--format", "json"),
        ("score", "results/r", "--format", "latex"),
        ("score", "results/r", "--format", "sequences", "--out", "out"),
        RUN,
        RUN,
        RUN,
    ]
    chosen = rng.choice(len(commands), size=1 if rng.random() < 0.6 else 2, replace=False)
    for command in [commands[i] for i in chosen]:
        sandbox.run(*command, into=["work/out", FOLDER], codes=codes)
    if rng.random() < report:
        sandbox.run("report", "results/r", "--jobs", "1", "--out", "out/report.html", into=["work/out"])


def write_all(sandbox, world):
    sandbox.write({**world["table"], **world["suite"], **world["results"]})


def as_unfinished(sandbox):
    """The results as a run leaves them that was stopped after its trials and before the end."""
    (sandbox.root / PART).parent.mkdir(parents=True)
    (sandbox.root / LOOKUPS).rename(sandbox.root / PART)
    (sandbox.root / LOOKUPS).parent.rmdir()


@cases(350)
def test_manifests(empty, world, rng):
    write_all(empty, world)
    manifest = json.loads(world["results"][f"{FOLDER}/manifest.json"])
    empty.mutated(f"{FOLDER}/manifest.json", json_text(mutate_value(rng, manifest, empty.root)))
    use(empty, rng)


@cases(80)
def test_names_in_manifests_are_not_paths(empty, world, rng):
    """A changed fingerprint makes a run remove old results, here of tables whose names are paths."""
    write_all(empty, world)
    if rng.random() < 0.5:
        as_unfinished(empty)
    manifest = json.loads(world["results"][f"{FOLDER}/manifest.json"])
    manifest["methods"]["RS"] = {"spec": "RS", "rows_version": 99}
    depth = int(rng.integers(1, 6))
    names = (
        "../" * depth + "victim",
        f"{empty.root}/victim",
        f"toy/{'../' * depth}victim",
        f"{empty.work}/victim",
    )
    name, key = pick(rng, names), pick(rng, ("tables", "methods"))
    (entry,) = manifest[key].values()
    manifest[key][name] = entry
    if rng.random() < 0.3:
        manifest["tables"]["toy"]["source"] = name
    empty.mutated(f"{FOLDER}/manifest.json", json_text(manifest))
    empty.run(*RUN, into=[FOLDER])
    empty.run("score", "results/r", "--format", "sequences", "--out", "out", into=["work/out"])


@cases(140)
def test_files_that_are_something_else(empty, world, rng):
    write_all(empty, world)
    if rng.random() < 0.3:
        as_unfinished(empty)
    paths = [p for p in sorted((empty.root / FOLDER).rglob("*")) if not p.is_symlink()]
    path = paths[int(rng.integers(len(paths)))]
    if path.is_file() and rng.random() < 0.6:
        others = [*world["source"].values(), *world["results"].values()]
        name = str(path.relative_to(empty.root))
        empty.mutated(name, mutate_bytes(rng, path.read_bytes(), others))
    else:
        empty.told.append(f"{path}: {odd_file(rng, path, empty.root)}")
    use(empty, rng, codes=(0, 1, 2))  # 1: the disk refuses to be written to


def mutate_lookups(rng, content):
    """A Parquet file with a column or the rows changed."""
    table = pq.read_table(pa.BufferReader(content))
    table = table.set_column(
        table.column_names.index("failure"), "failure", table["failure"].cast(pa.string())
    )
    at = int(rng.integers(table.num_columns))
    name = table.column_names[at]
    action = int(rng.integers(9))
    if action < 4:
        table = table.set_column(at, name, odd_column(rng, table.column(at)))
    elif action == 4:
        table = table.drop_columns([name])
    elif action == 5:
        table = table.take(pa.array(rng.permutation(table.num_rows)))
    elif action == 6:
        table = table.slice(*(int(k) for k in rng.integers(0, table.num_rows, size=2)))
    elif action == 7:
        other = pick(rng, ("loss_2", "loss_x", name, "", "x"))
        table = table.append_column(other, odd_column(rng, table.column(at)))
    else:
        text = pick(rng, ("\x1b[31mred", "<b>&", "=1+1", "a\nb", "x" * 5000, "[red]x[/]", "\u202e", "\x00"))
        table = table.set_column(8, "failure", pa.array([text] * table.num_rows))
        table = table.set_column(7, "failed", pa.array([True] * table.num_rows))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


@cases(240)
def test_lookups(empty, world, rng):
    write_all(empty, world)
    part = rng.random() < 0.3
    if part:
        as_unfinished(empty)
    empty.mutated(PART if part else LOOKUPS, mutate_lookups(rng, world["results"][LOOKUPS]))
    use(empty, rng)


@cases(80)
def test_timings_and_blocks(empty, world, rng):
    """Timings with other words in them, and blocks under other names, when a run goes on."""
    write_all(empty, world)
    as_unfinished(empty)
    if rng.random() < 0.5:
        timing = f"{FOLDER}/timings/toy/RS.csv"
        empty.mutated(timing, mutate_csv(rng, world["results"][timing]))
        (empty.root / PART).unlink()
    else:
        name = pick(
            rng, ("000001.parquet", "x.parquet", "000000.parquet.tmp", "-1.parquet", "999999999.parquet")
        )
        empty.told.append(name)
        (empty.root / PART).rename((empty.root / PART).with_name(name))
    empty.run(*RUN, into=[FOLDER])
    use(empty, rng)
