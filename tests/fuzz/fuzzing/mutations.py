"""Mutations: valid documents and files, changed so that they are wrong in one or a few places.

Each takes a generator, so that the same seed makes the same input.
"""

import copy
import gzip
import io
import json
import math
import os
import shutil
import sqlite3
import tomllib
import zipfile
from contextlib import closing, suppress
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def _nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


# fmt: off
_HUGE = 10**400
_NUMBERS = (
    0, 1, -1, 2, 3.5, 2**31, 2**63, -(2**63) - 1, _HUGE, -_HUGE, 1e308, -1e308, 5e-324, -0.0, math.inf,
    -math.inf, math.nan, 1e15, 0.1 + 0.2,
)
_PATHS = (
    "../victim", "../../victim", "../../../victim", "../../../../victim", "/VICTIM", "victim/../victim", ".",
    "..", "", "a/b", "a\\b", "~", "CON", "victim", "./toy", "toy/", "-rf", "--help", "con.txt", "C:\\x",
    "x.py:X",
)
_TEXTS = (
    " ", "x", "nan", "inf", "1e999", "0x10", "1_000", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\x00b",
    "a\nb", "a\rb", "\x7f\x9b\x85", "\u202eabc\u2028", "\ud800", "caf\udce9", "e\u0301", "x" * 300,
    "x" * 70_000, "<script>alert(1)</script>", "=1+1", "@x", "{{ 7 * 7 }}", "[red]x[/]", "[/]", "%s {0}",
    "$x^$", "a,b", '"', "'", "min", "max", "log", "any", "done", "failed", "default", "installed", "\ufeff",
    "１", "²", "None", "true",
)
_OTHERS = (
    None, True, False, [], [[]], {}, {"": 1}, {"a": {}}, [None], [1, "a"], ["a", "a"], _nested(50),
    date(2020, 2, 29), [math.nan, math.nan], {"default": "x"}, [{}], [0.5, 0.5], {"x": [1, {"y": None}]},
)
# fmt: on


def pick(rng, items):
    """One of some items."""
    items = list(items)
    return items[int(rng.integers(len(items)))]


def odd(rng, root="/nowhere"):
    """A value that nobody expects, of any type."""
    value = pick(rng, pick(rng, (_NUMBERS, _PATHS, _TEXTS, _OTHERS)))
    return f"{root}/victim" if value == "/VICTIM" else copy.deepcopy(value)


def _near(rng, value, root):
    """A value like this one but wrong, or any odd one."""
    if rng.random() < 0.5:
        return odd(rng, root)
    if isinstance(value, bool) or value is None:
        return pick(rng, (0, "true", [value]))
    if isinstance(value, int | float):
        options = (-value, str(value), [value], value + 1, value - 1, bool(value), 10**15 * value)
        return pick(rng, (*options, _HUGE))
    if isinstance(value, str):
        options = (
            value.upper(),
            value + pick(rng, _TEXTS),
            [value],
            value[:-1],
            f"../{value}",
            f"{value}/../{value}",
        )
        return pick(rng, options)
    return pick(rng, (str(value), [value], {"x": value}, list(value)))


def _places(value, at=()):
    """Paths to every value in nested dicts and lists."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield (*at, key)
        yield from _places(child, (*at, key))


def mutate_value(rng, document, root="/nowhere"):
    """A copy of nested dicts and lists with something in it changed, added, renamed, doubled or gone."""
    document = json.loads(json.dumps(document, default=str)) if not isinstance(document, str) else document
    for _ in range(int(pick(rng, (1, 1, 1, 2, 3)))):
        places = list(_places(document))
        if not places:
            return document
        *way, last = pick(rng, places)
        parent = document
        for key in way:
            parent = parent[key]
        action = rng.random()
        if action < 0.55:
            parent[last] = _near(rng, parent[last], root)
        elif action < 0.7:
            del parent[last]
        elif isinstance(parent, list):
            parent.insert(last, pick(rng, (parent[last], odd(rng, root))))
        elif action < 0.85:
            name = pick(rng, (*_PATHS, *_TEXTS, f"{last}s", str(last).upper()))
            name = f"{root}/victim" if name == "/VICTIM" else name
            parent[name] = parent.pop(last) if rng.random() < 0.6 else odd(rng, root)
        else:
            *other, end = pick(rng, places)
            source = document
            try:
                for key in other:
                    source = source[key]
                parent[last] = json.loads(json.dumps(source[end], default=str))
            except (KeyError, IndexError, TypeError):
                parent[last] = odd(rng, root)
    return document


def json_text(document):
    """JSON text, lone surrogates as escapes."""
    return json.dumps(document, default=str).encode()


def toml(document):
    """TOML text of a document; what TOML has no word for is written as if it had."""
    plain = [f"{_key(k)} = {_toml_value(v)}\n" for k, v in document.items() if not isinstance(v, dict)]
    return "".join(plain + [_toml_section(k, v) for k, v in document.items() if isinstance(v, dict)])


def _toml_section(name, content):
    if content and all(isinstance(v, dict) for v in content.values()):
        return "".join(f"[{_key(name)}.{_key(k)}]\n{_toml_lines(v)}" for k, v in content.items())
    return f"[{_key(name)}]\n{_toml_lines(content)}"


def _toml_lines(content):
    return "".join(f"{_key(k)} = {_toml_value(v)}\n" for k, v in content.items())


def _key(key):
    return json.dumps(str(key)).replace("\x7f", "\\u007f")


def _toml_value(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_toml_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return _key(value) if isinstance(value, str) else str(value)


def mutate_bytes(rng, content, others=()):
    """Bytes that were cut, flipped, mixed up, encoded otherwise, or that are another file's."""
    at = int(rng.integers(len(content) + 1))
    flipped = bytearray(content or b"x")
    for _ in range(int(rng.integers(1, 4))):
        flipped[int(rng.integers(len(flipped)))] ^= 1 << int(rng.integers(8))
    lines = content.split(b"\n")
    line = int(rng.integers(len(lines)))
    insert = pick(
        rng,
        (
            b"\xff\xfe",
            b"\x00",
            b"\xc3",
            b"\xed\xa0\x80",
            b"\x1b[2J",
            b"9" * 5000,
            b"\r",
            b'"',
            b"[" * 100_000,
        ),
    )
    options = (
        b"",
        content[:at],
        content[at:],
        bytes(flipped),
        content[:at] + insert + content[at:],
        content[:at] + content[at + 7 :],
        b"\n".join([*lines[:line], lines[line], *lines[line:]]),
        b"\n".join([*lines[:line], *lines[line + 1 :]]),
        b"\n".join(rng.permutation(np.array(lines, dtype=object)).tolist()),
        content.replace(b"\n", b"\r\n"),
        content.decode("utf-8", "replace").encode("utf-16"),
        content.decode("utf-8", "replace").replace("e", "é").encode("latin-1", "replace"),
        b"\xef\xbb\xbf" + content,
        content * 2,
        content.rstrip(b"\n"),
        bytes(rng.integers(256, size=200, dtype=np.uint8)),
        b"null",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"x = " + b"9" * 5000,
        b'{"format": ' + b"9" * 5000 + b"}",
        *others,
    )
    return options[int(rng.integers(len(options)))]


def mutate_csv(rng, content):
    """A CSV file with cells, columns or rows changed."""
    rows = [line.split(",") for line in content.decode().splitlines()]
    for _ in range(int(pick(rng, (1, 1, 2, 4)))):
        row, column = int(rng.integers(len(rows))), int(rng.integers(len(rows[0])))
        action = rng.random()
        if action < 0.5:
            cells = rows[row]
            if column < len(cells):
                value = odd(rng)
                text = json.dumps(value) if isinstance(value, list | dict) else str(value)
                cells[column] = '"' + text.replace('"', '""') + '"' if set(text) & set('",\n\r') else text
        elif action < 0.6:
            for cells in rows:
                cells.insert(column, cells[min(column, len(cells) - 1)])
        elif action < 0.7 and len(rows[0]) > 1:
            for cells in rows:
                del cells[min(column, len(cells) - 1)]
        elif action < 0.8:
            value = str(pick(rng, _NUMBERS))
            for cells in rows[1:]:
                cells[min(column, len(cells) - 1)] = value
        elif action < 0.9:
            rows.insert(row, list(rows[row]))
        else:
            rows[row].append(str(pick(rng, _NUMBERS)))
    return ("\n".join(",".join(cells) for cells in rows) + "\n").encode("utf-8", "surrogatepass")


def odd_file(rng, path, root):
    """Put something in the place of a file: nothing, a folder, or a link to a file outside or to nowhere."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = pick(
        rng, ("gone", "folder", "link", "link to a folder", "link to nowhere", "link to itself", "pipe")
    )
    targets = {"link": "victim/keep.txt", "link to a folder": "victim", "link to nowhere": "nowhere/at/all"}
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to itself":
        path.symlink_to(path)
    elif kind in targets:
        path.symlink_to(root / targets[kind])
    return kind


def mutate_file(rng, path, root):
    """The content of a valid file with something wrong in it: by its format, or in its bytes."""
    content, change = path.read_bytes(), _CHANGES.get(path.suffix)
    if change is None or rng.random() < 0.3:
        return mutate_bytes(rng, content)
    return change(rng, content, root)


def _mutate_json(rng, content, root):
    if content.count(b"\n{"):  # Ray Tune's result.json has lines
        return _mutate_json_lines(rng, content, root)
    text = json_text(mutate_value(rng, json.loads(content), root))
    return _deepened(rng, text) if rng.random() < 0.05 else text


def _mutate_json_lines(rng, content, root):
    lines = content.splitlines()
    at = int(rng.integers(len(lines)))
    lines[at] = _mutate_json(rng, lines[at], root)
    return b"".join(line + b"\n" for line in lines)


def _mutate_toml(rng, content, root):
    return toml(mutate_value(rng, tomllib.loads(content.decode()), root)).encode("utf-8", "surrogatepass")


def _deepened(rng, text):
    """JSON in which a list of many levels is in the place of a number or text."""
    depth = pick(rng, (101, 400, 800, 930, 980, 2000))
    places = [k for k in range(len(text)) if text[k : k + 2] == b": "]
    at = pick(rng, places) + 2 if places else 0
    return text[:at] + b"[" * depth + b"]" * depth + (b", " + text[at:] if places else b"")


def odd_column(rng, column):
    """A column of the same length, of another type or with other values."""
    n = len(column)
    values = column.to_pylist()
    some = rng.random(n) < 0.3
    number = pick(rng, (-1, 0, 1, 10**6, 2**31 - 1))
    options = (
        lambda: pa.array([str(v) for v in values]),
        lambda: pa.array([None if s else v for s, v in zip(some, values, strict=True)], column.type),
        lambda: pa.nulls(n),
        lambda: pa.array([[v] for v in values]),
        lambda: pa.array([{"x": v} for v in values]),
        lambda: pa.array(rng.permutation(n)),
        lambda: pa.array(rng.normal(size=n) * 10.0 ** int(rng.integers(-300, 300))),
        lambda: pa.array([float("nan") if s else 0.0 for s in some]),
        lambda: pa.array(np.where(some, number, 0)),
        lambda: pa.array(np.full(n, 2**63 + 1, dtype=np.uint64)),
        lambda: pa.array([bool(s) for s in some]),
        lambda: pa.array([b"\xff\x00" for _ in values]),
        lambda: pa.array([0] * n, pa.timestamp("s")),
    )
    return pick(rng, options)()


def _mutate_parquet(rng, content, root):
    """A Parquet file with a column, the rows, or the metadata changed."""
    table = pq.read_table(pa.BufferReader(content))
    about = table.schema.metadata or {}
    at = int(rng.integers(table.num_columns))
    name, action = table.column_names[at], int(rng.integers(7 if about else 5))
    if action < 2:
        with suppress(pa.ArrowException):  # such a column has no values that could be None
            table = table.set_column(at, name, odd_column(rng, table.column(at).combine_chunks()))
    elif action == 2:
        table = table.drop_columns([name])
    elif action == 3:
        table = table.take(pa.array(rng.permutation(table.num_rows)[: int(rng.integers(table.num_rows + 1))]))
    elif action == 4:
        table = table.append_column(pick(rng, (name, "", "x")), odd_column(rng, table.column(at)))
    else:
        key = pick(rng, about)
        changed = mutate_bytes(rng, about[key]) if rng.random() < 0.3 else _mutate_json(rng, about[key], root)
        table = table.replace_schema_metadata(about | {key: changed})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def _mutate_database(rng, content, root):
    """A database of SQLite with cells, a column or a table changed."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(content)
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(int(pick(rng, (1, 1, 2, 4)))):
            table = pick(rng, tables)
            columns = [row[1] for row in database.execute(f"PRAGMA table_info('{table}')")]
            column, action = pick(rng, columns), rng.random()
            value = odd(rng, root)
            if isinstance(value, list | dict):
                value = json.dumps(value, default=str)
            if isinstance(value, date):  # SQLite has none
                value = value.isoformat()
            with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):  # SQLite has no such value
                if action < 0.75:
                    one = "" if action < 0.15 else f"WHERE rowid = {int(rng.integers(1, 9))}"
                    database.execute(f"UPDATE {table} SET {column} = ? {one}", (value,))
                elif action < 0.85:
                    database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
                elif action < 0.9:
                    database.execute(f"DELETE FROM {table}")
                else:
                    database.execute(f"INSERT INTO {table} SELECT * FROM {table}")
        database.commit()
        return database.serialize()


def _mutate_arrays(rng, content, root):
    """An npz file with one of its arrays changed, left out or added."""
    with np.load(io.BytesIO(content)) as held:
        arrays = {name: held[name] for name in held}
    name = pick(rng, arrays)
    found = arrays.pop(name)
    options = (
        None,
        found.astype(np.float64) * 10.0 ** int(rng.integers(-9, 300)),
        found.astype(str),
        found[:1],
        found[:0],
        np.array(7),
        -found.astype(np.int64),
        found[None],
        np.full(found.shape, np.nan),
        rng.permutation(found.ravel()),
        np.frombuffer(mutate_bytes(rng, found.tobytes()), np.uint8),
    )
    changed = options[int(rng.integers(len(options)))]
    file = io.BytesIO()
    np.savez(file, **arrays, **({} if changed is None else {name: changed}))
    return file.getvalue()


def _mutate_gzip(rng, content, root):
    return gzip.compress(mutate_bytes(rng, gzip.decompress(content)), mtime=0)


def _mutate_zip(rng, content, root):
    """A ZIP archive with a member changed, renamed, doubled or compressed in another way."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    at = int(rng.integers(len(members)))
    name, held = members[at]
    renamed = pick(rng, (name, name, name, "../x.csv", "/x.csv", "x" * 300, "a/b.csv", ""))
    members[at] = renamed, mutate_bytes(rng, held)
    way = pick(rng, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", way) as archive:
        for each, inside in members:
            archive.writestr(zipfile.ZipInfo(each), inside, way)
    found = bytearray(file.getvalue())
    if rng.random() < 0.3:
        found[int(rng.integers(len(found)))] ^= 1 << int(rng.integers(8))
    return bytes(found)


_CHANGES = {
    ".json": _mutate_json,
    ".jsonl": _mutate_json_lines,
    ".toml": _mutate_toml,
    ".csv": lambda rng, content, root: mutate_csv(rng, content),
    ".parquet": _mutate_parquet,
    ".db": _mutate_database,
    ".npz": _mutate_arrays,
    ".gz": _mutate_gzip,
    ".zip": _mutate_zip,
}
