"""The tables of each track of lm-2026, by the committed count of families (families.txt).

    python benchmarks/tables/lm_2026.py [TRACK ...]

writes the lines below [tables] in hpobench_nmt/benchmarking/suites/lm-2026-TRACK.toml, in all tracks by
default. A line has the table's family; its source in `scale`; and its hash, of everything that trials and
scores depend on (`pinned`). The tables are those with a plus in families.txt, most rows first. Their
collections must be installed.
"""

import argparse
from pathlib import Path

from count_families import FAMILIES, SMALLER

from hpobench_nmt.benchmarking.records.frozen import pin_of
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite_files import load_suite, suite_files, track_of, tracks
from hpobench_nmt.lookup.catalogue import load_table

BENCHMARK = "lm-2026"
_COUNT = Path(__file__).with_name("families.txt")
_TABLES = "[tables]\n"


def kept(track: str) -> list[str]:
    """The tables that the rules leave in a track."""
    part = _COUNT.read_text().split(f"\n# {track}\n")[1].split("\n# ")[0]
    return [line.split()[1].rstrip(":") for line in part.splitlines() if line.startswith("  + ")]


def write(track: str) -> None:
    """Write the lines of a track: without hashes first, because a hash depends on the other settings."""
    file = suite_files()[track_of(BENCHMARK, track)]
    settings = {name: {"family": FAMILIES[name]} for name in kept(track)}
    for name in settings if track == "scale" else ():
        settings[name]["source_of"] = SMALLER[name]
    _write(file, settings)
    suite = load_suite(str(file))
    for name, own in settings.items():
        own["pinned"] = pin_of(suite, make_instance(suite, load_table(name)))
    _write(file, settings)


def _write(file: Path, settings: dict[str, dict[str, str]]) -> None:
    head = file.read_text().split(_TABLES)[0]
    texts = [", ".join(f'{key} = "{value}"' for key, value in own.items()) for own in settings.values()]
    lines = [f"{name} = {{{text}}}\n" for name, text in zip(settings, texts, strict=True)]
    file.write_text(f"{head}{_TABLES}{''.join(lines)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tracks", nargs="*")
    for each in parser.parse_args().tracks or tracks(BENCHMARK):
        write(each)
