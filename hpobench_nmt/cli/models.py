"""`hpobench-nmt model`: use models that `train --keep` kept on other text."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpobench_nmt.cli.common import (
    Commands,
    check_out_file,
    make_console,
    require_family,
    require_installed,
    say,
)
from hpobench_nmt.cli.options import PATH, format_option, option, path_option, settings_option
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.system.validation import Strict, checked

if TYPE_CHECKING:
    from hpobench_nmt.runner.disk.kept_model import KeptModel
    from hpobench_nmt.runner.family import Family

LARGEST_TEXT = 2**30

model_argument = click.argument("model", metavar="MODEL", type=PATH)
device_option = option("--device", "DEVICE", "auto, cpu, cuda or cuda:0.", "auto")


def checked_model(path: Path) -> tuple[KeptModel, Family[Any]]:
    """What a kept model is, and its family, whose packages are installed."""
    from hpobench_nmt.runner.disk.kept_model import read_kept
    from hpobench_nmt.runner.families import load_family

    require_installed("torch")
    about = read_kept(path)
    family = load_family(about.family)
    require_family(family)
    return about, family


class _Evaluations(Strict, frozen=True):
    """The settings of `model evaluate --set`."""

    dynamic: str = ""
    cache: bool = False


@click.command()
@model_argument
@path_option("--text path", "", "The text: a UTF-8 file.", required=True)
@settings_option("Also use dynamic evaluation, by dynamic=RULE, or a neural cache, by cache=true.")
@device_option
@format_option("text", "json")
def evaluate(model: Path, path: Path, settings: dict[str, Any], device: str, form: str) -> None:
    """Measure the perplexity of a text under a kept language MODEL.

    MODEL is a folder that 'train --keep' made. The text is split into words, characters or subwords in the
    same way as the model's corpus. Words outside the model's vocabulary count as <unk>, as in the corpus.
    """
    from hpobench_nmt.core.system.files import read_bytes
    from hpobench_nmt.render.terminal.grids import print_grid
    from hpobench_nmt.runner.corpora import split_text
    from hpobench_nmt.runner.disk.kept_model import describe_kept

    asked = checked(settings, _Evaluations, "--set")
    about, _ = checked_model(model)
    from hpobench_nmt.runner.families.kept import load_language_model
    from hpobench_nmt.runner.lm.evaluate_kept import evaluate as run
    from hpobench_nmt.runner.lm.evaluate_kept import numbered

    content = read_bytes(path, LARGEST_TEXT)
    kept = load_language_model(model, one_device(device))
    corpus = kept.corpus
    split = split_text(about.corpus, content, path, corpus.vocabulary)
    tokens, outside = numbered(corpus.vocabulary, split, str(path))
    found = run(kept, tokens, asked.dynamic, asked.cache)
    if form == "json":
        rows = [
            {
                "evaluation": each.name,
                **{name: x if math.isfinite(x) else None for name, x in each.scores.items()},
                "seconds": each.seconds,
                **each.used,
            }
            for each in found
        ]
        text = {"text": str(path), "tokens": len(tokens), "out_of_vocabulary": outside}
        click.echo(json.dumps({"model": str(model), **text, "evaluations": rows}, indent=1))
        return
    say(f"{describe_kept(about)}, trained on {corpus.name}")
    known = f"the vocabulary of {len(corpus.vocabulary):,}"
    say(f"{path}: {len(tokens):,} {corpus.unit}s, {outside:,} ({outside / len(tokens):.2%}) out of {known}")
    cells = [(e.name, *map(_shown, e.scores.values()), f"{e.seconds:.1f}") for e in found]
    print_grid(("evaluation", *found[0].scores, "seconds"), cells, make_console())


def _shown(score: float) -> str:
    """A perplexity or bits per character. Those of a diverged model may have hundreds of digits."""
    if not math.isfinite(score):
        return "diverged"
    return f"{score:.2f}" if score < 1e6 else f"{score:.3g}"


def one_device(text: str) -> str:
    """The single device of the option --device."""
    from hpobench_nmt.runner.devices import find_devices

    if "," in text:
        raise InputError(f"--device {text}: a model runs on one device. Give only one.")
    return find_devices(text)[0]


@click.command()
@model_argument
@path_option("--text path", "", "The text: a UTF-8 file.  [default: stdin]")
@path_option("-o --out", "", "File of the translations.  [default: stdout]")
@device_option
def translate(model: Path, path: Path | None, out: Path | None, device: str) -> None:
    """Translate a text, line by line, with a kept MODEL.

    MODEL is a folder that 'train --keep' made. The text is split into tokens in the same way as the model's
    corpus, and the translations have the same kind of tokens. stderr reports the amount of text, and the
    share of it that the model does not know.
    """
    from hpobench_nmt.core.system.files import read_bytes, save_file
    from hpobench_nmt.runner.corpora import split_text

    if out:
        check_out_file(out)
    about, family = checked_model(model)
    from hpobench_nmt.runner.families.kept import load_translation_model

    kept = load_translation_model(model)
    name = path or Path("stdin")
    content = read_bytes(path, LARGEST_TEXT) if path else sys.stdin.buffer.read(LARGEST_TEXT + 1)
    if len(content) > LARGEST_TEXT:
        raise InputError(f"{name}: larger than {LARGEST_TEXT:,} bytes.")
    lines = split_text(about.corpus, content, name)
    assert family.translator is not None  # otherwise, there would be no kept translation model
    found = family.translator.translate(kept, lines, one_device(device))
    text = "".join(line + "\n" for line in found.lines)
    if out:
        save_file(out, text.encode())
    else:
        click.echo(text, nl=False)
    share = found.outside / max(found.subwords, 1)
    unknown_words = f"{found.outside:,} ({share:.2%}) out of the vocabulary"
    say(
        f"{name}: {counted(len(found.lines), 'line')}, {counted(found.subwords, 'subword')}, "
        f"{unknown_words}, {found.seconds:.1f} s",
        err=True,
    )


@click.group(cls=Commands)
def model() -> None:
    """Translate, evaluate and adapt with a model that 'train --keep' kept."""


model.add_command(translate)
model.add_command(evaluate)

COMMANDS = (model,)
