"""`hpobench-nmt model adaptation`: how a kept language model adapts (Krause et al. 2018, 7.4 and 7.5)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpobench_nmt.cli.common import check_out_folder, make_console, say
from hpobench_nmt.cli.models import (
    LARGEST_TEXT,
    checked_model,
    device_option,
    model,
    model_argument,
    one_device,
)
from hpobench_nmt.cli.options import listed_option, path_option, seed_option, settings_option
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.validation import Positive, Strict, checked

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from torch import Tensor

    from hpobench_nmt.runner.lm.dynamic import UpdateRule
    from hpobench_nmt.runner.lm.kept_files import KeptLanguageModel

_TITLES = {
    "timescales": "Losses over time, means of {parts} sequences",
    "shift": "Losses before and after the change of text",
}
_RELATED = 10  # number of words that the terminal shows; the file has all words


class _Shown(Strict, frozen=True):
    """The settings of the option --set."""

    dynamic: str = ""
    parts: Positive = 20
    window: Positive = 100
    word: str = ""
    sample: Positive | None = None
    context: Positive = 10_000


@model.command("adaptation")
@model_argument
@path_option("-o --out", "", "Folder of the files.", required=True)
@listed_option(
    "--text paths",
    "FILE[,FILE]",
    "A UTF-8 file, and a second one that is read after it.  [default: the test part]",
)
@settings_option(
    "dynamic=RULE of updates, by default the training's; parts=20, sequences to cut the text into; "
    "window=100, tokens per point; word=WORD, to which related words are shown; sample=N, tokens to write; "
    "context=10000, tokens read before them."
)
@seed_option("Seed of the sample.")
@device_option
def adaptation(
    model: Path, out: Path, paths: tuple[str, ...], settings: dict[str, Any], seed: int, device: str
) -> None:
    """Show how a kept language MODEL adapts to a text.

    MODEL is a folder that 'train --keep' made.

    OUT/timescales.csv has static and dynamic losses (nats per token) against the number of tokens read,
    averaged over the parts. With a second text, OUT/shift.csv has these losses before and after the change.
    With --set word=WORD, OUT/related.csv shows how the first occurrence of the word changes the
    log-probabilities of all words. With --set sample=N, OUT/samples.txt has samples of the static and the
    adapted model, which continue the first tokens of the last text. The losses are also drawn, in files .png
    and .pdf beside the .csv files.
    """
    shown = checked(settings, _Shown, "--set")
    if len(paths) > 2:
        raise InputError(f"--text takes one or two files, not {len(paths)}.")
    check_out_folder(out)
    checked_model(model)
    import numpy as np

    from hpobench_nmt.core.system.files import save_file
    from hpobench_nmt.render.data_text import csv_text
    from hpobench_nmt.render.plots.adaptation import plot_adaptation
    from hpobench_nmt.render.plots.style import save
    from hpobench_nmt.render.section_files import FIGURE_FORMATS
    from hpobench_nmt.runner.families.kept import load_language_model
    from hpobench_nmt.runner.lm.adaptation import adaptation_curve, sample, timescales
    from hpobench_nmt.runner.lm.evaluate_kept import kept_rule

    kept = load_language_model(model, one_device(device))
    lm: Any = kept.model
    tokens = _tokens(kept, Path(paths[0])) if paths else kept.corpus.test
    second = _tokens(kept, Path(paths[1])) if len(paths) > 1 else None
    own = kept.settings.dynamic_rule
    adapted, rms = kept_rule(kept, shown.dynamic or (own if own != "none" else "rms-rms-prior"))
    frames = {"timescales": timescales(lm, tokens, shown.parts, adapted, rms, shown.window)}
    if second is not None:
        joined = np.concatenate([tokens, second])
        frames["shift"] = adaptation_curve(lm, [joined], adapted, rms, len(tokens), shown.window)
    if shown.word:
        frames["related"] = _related(kept, tokens, shown.word, adapted, rms)
    texts = []
    if shown.sample:
        before = (tokens if second is None else second)[: shown.context]
        for name, chosen in (("static", None), ("dynamic", adapted)):
            written, _ = sample(lm, before, shown.sample, chosen, np.random.default_rng(seed), rms)
            texts.append(f"{name}:\n{_text(kept, written)}\n")
    for name, frame in frames.items():
        save_file(out / f"{name}.csv", csv_text(frame).encode())
        if name in _TITLES:
            figure = plot_adaptation(frame, _TITLES[name].format(parts=shown.parts))
            for form in FIGURE_FORMATS:
                save(figure, out / f"{name}.{form}", form)
    if texts:
        save_file(out / "samples.txt", "\n".join(texts).encode())
    last = frames["timescales"].iloc[-1]
    losses = f"static {last['static']:.4f}, dynamic {last['dynamic']:.4f} nats per token"
    say(f"At the end of {shown.parts} sequences: {losses}.")
    if "related" in frames:
        _print_related(frames["related"])
    names = ", ".join([f"{name}.csv" for name in frames] + ["samples.txt"] * bool(texts))
    say(f"Written to {out}: {names}, and figures of the losses.")


def _tokens(kept: KeptLanguageModel, path: Path) -> NDArray[np.int64]:
    from hpobench_nmt.core.system.files import read_bytes
    from hpobench_nmt.runner.corpora import split_text
    from hpobench_nmt.runner.lm.evaluate_kept import numbered

    text = split_text(kept.about.corpus, read_bytes(path, LARGEST_TEXT), path, kept.corpus.vocabulary)
    return numbered(kept.corpus.vocabulary, text, str(path))[0]


def _related(
    kept: KeptLanguageModel, tokens: NDArray[np.int64], word: str, rule: UpdateRule, rms: list[Tensor] | None
) -> pd.DataFrame:
    """The effect of a word's first occurrence, the most similar words first."""
    import numpy as np

    from hpobench_nmt.runner.lm.adaptation import word_effect

    vocabulary = kept.corpus.vocabulary
    if word not in vocabulary:
        raise InputError(f"the word {word!r} is not in the vocabulary of {len(vocabulary):,}.")
    places = np.flatnonzero(tokens == vocabulary.index(word))
    places = places[places > 0]
    if not len(places):
        raise InputError(f"the word {word!r} does not occur in the text after its first token.")
    lm: Any = kept.model
    found = word_effect(lm, tokens, int(places[0]), rule, rms)
    found.insert(0, "word", vocabulary)
    return found.sort_values("cosine", ascending=False, kind="stable")


def _print_related(related: pd.DataFrame) -> None:
    from hpobench_nmt.core.system.text import printable
    from hpobench_nmt.render.terminal.grids import print_grid

    shown = related.head(_RELATED + 1)
    rows = [(printable(str(r.word)), f"{r.cosine:.2f}", f"{r.change:+.2f}") for r in shown.itertuples()]
    rows.append(("median", f"{related['cosine'].median():.2f}", f"{related['change'].median():+.2f}"))
    print_grid(("word", "cosine", "change of log-probability"), rows, make_console())


def _text(kept: KeptLanguageModel, tokens: NDArray[np.int64]) -> str:
    """Tokens as text, with spaces between words, and an end of line for each <eos>."""
    from hpobench_nmt.runner.corpora.subwords import BLANK
    from hpobench_nmt.runner.corpora.vocabulary import END

    joint = " " if kept.corpus.unit == "word" else ""
    words = ("\n" if (word := kept.corpus.vocabulary[t]) == END else word for t in tokens.tolist())
    text = joint.join(words)
    return text.replace(BLANK, " ") if kept.corpus.unit == "subword" else text
