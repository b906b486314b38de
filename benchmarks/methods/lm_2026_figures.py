"""The figures of lm-2026 on the site: a table for each track, from the archive and the installed tables.

    hpobench-nmt tables fetch lm-2026
    python benchmarks/methods/lm_2026_figures.py [TRACK ...] [--archive FILE]

For each method it prints how many times fewer trainings than random search it needs, with its interval over
trials on these tables; the figure over the families that did not tune it, with the number of these; what the
test over them shows, or the ratio that it would have shown; its places when one family is left out; and the
share of capped trials. Below the table are the sentences of the leaderboard, and for a few pairs of methods
how many times fewer trainings the first needs, on these tables and on families that tuned neither.
"""

import argparse
from pathlib import Path

from hpobench_nmt.analysis.decisions import verdicts
from hpobench_nmt.arena.beside import ARCHIVE, load_archive
from hpobench_nmt.arena.boards import Track, arena_tracks
from hpobench_nmt.core.system.text import short
from hpobench_nmt.methods import CONTROLS

PAIRS = (
    ("BO_auto", "BO_EI_M_std"), ("BO_auto", "botorch.LogEI"), ("BO_auto", "CQR"),
    ("BO_levels", "ASHA"), ("BO_levels", "CQR_ASHA"),
)  # fmt: skip
HEAD = ("method", "all families", "families that did not tune it", "on other families", "places", "capped")


def table(track: Track) -> list[tuple[str, ...]]:
    """The cells of a track's table, the best method first."""
    found = track.found
    assert found.paired is not None, found.reason
    tests, places = found.tests[found.tests["b"] == ""].set_index("a"), found.paired.places()
    rows: list[tuple[str, ...]] = []
    for line in found.methods.sort_values("times_fewer", ascending=False).to_dict("records"):
        name = line["method"]
        figure = f"{short(line['times_fewer'])} [{short(line['low'])}, {short(line['high'])}]"
        outside, verdict = "", ""
        if name in tests.index:
            test = tests.loc[name]
            outside = f"{short(test['families_ratio'])} ({test['families']})"
            verdict = (
                ""
                if name in CONTROLS
                else _verdict(test["families_p_page"], test["families_smallest"], test["families_can_show"])
            )
        place = "–".join(dict.fromkeys(map(str, places.get(name, ()))))
        shown = f"`{name}`, a control" if name in CONTROLS else f"`{name}`"
        rows.append((shown, figure, outside, verdict, place, f"{line['capped']:.0%}"))
    return rows


def _verdict(p: float, smallest: float, can_show: bool) -> str:
    """What the test over families shows, in a few words."""
    if p != p:
        return "no test"
    if p <= 0.05:
        return f"shown, p = {p:.2g}"
    return f"not shown, p = {p:.2g}; {short(smallest)} would be" if can_show else "cannot be shown"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tracks", nargs="*")
    parser.add_argument("--archive", default=ARCHIVE)
    given = parser.parse_args()
    for track in arena_tracks(load_archive(Path(given.archive) if given.archive != ARCHIVE else ARCHIVE)):
        if given.tracks and track.name not in given.tracks:
            continue
        families = track.found.tables["family"].nunique()
        print(f"\n## {track.name}: {len(track.found.tables)} tables, {families} families\n")
        for cells in (HEAD, ["---"] * len(HEAD), *table(track)):
            print(f"| {' | '.join(cells)} |")
        print(*("", *track.sentences), sep="\n")
        for pair in PAIRS:
            if track.found.paired is not None and set(pair) <= set(track.found.methods["method"]):
                here, others, count = verdicts(track.found.paired, *pair)
                for where, verdict in (("these tables", here), (f"{count} other families", others)):
                    print(f"{' against '.join(pair)} on {where}: {verdict}")


if __name__ == "__main__":
    main()
