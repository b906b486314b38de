"""Make the pictures of the README and the site: `python docs/pictures.py`, some ten seconds."""

from pathlib import Path

import hpobench_nmt as hb

STATIC = Path(__file__).parent / "_static"
METHODS = ("RS", "BO_auto", "BO_EI_M", "BO_EI_M_std", "GB_EIF_M")


def main() -> None:
    """Draw each picture into docs/_static."""
    results = hb.run(tables="sotu-ngram", methods=METHODS, trials=100, score_at=50, jobs=2)
    hb.plot_regret(results).savefig(STATIC / "regret.png", dpi=110)


if __name__ == "__main__":
    main()
