"""`evaluate` and `translate` of models from somebody else that mean harm: one line, nothing is written."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.cli.main import main  # noqa: E402
from hpobench_nmt.runner.corpora import TextCorpus, filled_section  # noqa: E402
from hpobench_nmt.runner.families import load_family  # noqa: E402
from hpobench_nmt.runner.ledgers.ledger import Record  # noqa: E402
from hpobench_nmt.runner.lm.kept_files import save_language_model  # noqa: E402
from hpobench_nmt.runner.training.train_row import keep_model  # noqa: E402

TEXT = {"name": "text", "train": "train.txt", "dev": "dev.txt", "test": "test.txt"}
WORDS = ("<unk>", "<eos>", "a", "b", "c")
TOKENS = np.array([2, 3, 1, 4, 2, 1] * 4)


def saved(folder, **settings):
    """A kept model that was never trained."""
    family = load_family("awd-lstm")
    chosen = family.settings(**{"layers": 1, "embedding_size": 4} | settings)
    model = family.architecture.build(chosen, len(WORDS), "word", torch.Generator().manual_seed(0))
    corpus = TextCorpus("text", "word", WORDS, TOKENS, TOKENS, TOKENS, {})
    new = folder.with_name("new")
    new.mkdir(parents=True)
    losses = {"static": (np.ones(len(TOKENS) - 1),) * 2}
    save_language_model(new, model=model, corpus=corpus, settings=chosen, losses=losses, statistics=None)
    keep_model(new, folder, "awd-lstm", chosen, filled_section(TEXT), {}, Record({"a": 1}, 0, 5, "done"))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "models" / "key"
    saved(folder)
    return folder


@pytest.fixture
def model(original, tmp_path, monkeypatch):
    """A copy in a working folder of its own, beside a text."""
    folder = tmp_path / "work" / "model"
    folder.mkdir(parents=True)
    for path in original.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (tmp_path / "work" / "text").write_text("a b\nc a\n")
    monkeypatch.chdir(tmp_path / "work")
    return folder


def put(model, name, content, **settings):
    """A file in place of the model's, with its right hash in model.json, and other settings."""
    if content is not None:
        (model / name).write_bytes(content)
    about = json.loads((model / "model.json").read_text())
    with (model / name).open("rb") as file:
        about["files"][name] = hashlib.file_digest(file, "sha256").hexdigest()
    about["settings"] |= settings
    (model / "model.json").write_text(json.dumps(about))


def run(capsys, *arguments):
    """Exit code and the lines on stderr."""
    with pytest.raises(SystemExit) as ended:
        main(["model", *arguments, "--text", "text", "--device", "cpu"])
    output = capsys.readouterr()
    assert ended.value.code == 0 or output.out == ""
    return ended.value.code, output.err.splitlines()


def test_the_model_itself_is_measured(model, capsys):
    assert run(capsys, "evaluate", "model") == (0, [])


def torch_file(value):
    content = io.BytesIO()
    torch.save(value, content)
    return content.getvalue()


def npz(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def zipped(*entries, compression=zipfile.ZIP_STORED):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, value in entries:
            archive.writestr(name, value)
    return content.getvalue()


def tarred(name):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = 5
        archive.addfile(info, io.BytesIO(b"pwned"))
    return content.getvalue()


def weights_of(model):
    return torch.load(model / "weights.pt", weights_only=True)


def with_meta(model):
    """Tensors of the right names, kinds and shapes without any content."""
    return torch_file({n: torch.empty_like(w, device="meta") for n, w in weights_of(model).items()})


def shared(model):
    """Tensors of one content of 2^14 numbers that claim to be 2^20."""
    block = torch.zeros(2**14)
    return torch_file({f"w{i}": block[:] for i in range(2**6)})


class Touches:
    """Its pickle makes a file."""

    def __reduce__(self):
        return Path.touch, (Path("pwned"),)


EVIL_PICKLE = b"cos\nsystem\n(S'touch pwned'\ntR."
WEIGHTS = {
    "nothing": (lambda model: b"", "File is not a zip file"),
    "a page": (lambda model: b"<html>", "File is not a zip file"),
    "a tar that climbs": (lambda model: tarred("../pwned"), "File is not a zip file"),
    "a tar from the root": (lambda model: tarred("/pwned"), "File is not a zip file"),
    "names that climb": (lambda model: zipped(("../../pwned", b"pwned")), "cannot be used"),
    "names from the root": (lambda model: zipped(("/pwned", b"pwned")), "cannot be used"),
    "a bomb": (
        lambda model: zipped(("w/data.pkl", bytes(2**24)), compression=zipfile.ZIP_DEFLATED),
        "it is compressed",
    ),
    "a pickle": (lambda model: zipped(("w/data.pkl", EVIL_PICKLE), ("w/version", b"3")), "cannot be used"),
    "torch's pickle": (lambda model: torch_file({"a": Touches()}), "cannot be used"),
    "a pickle of 64 MiB and more": (
        lambda model: zipped(("w/data.pkl", bytes(2**26 + 1))),
        "its names and shapes take more than 67,108,864 bytes",
    ),
    "cut": (lambda model: (model / "weights.pt").read_bytes()[:-80], "File is not a zip file"),
    "in the middle": (lambda model: (model / "weights.pt").read_bytes()[200:], "cannot be used"),
    "no content": (with_meta, "it must hold tensors, each in one piece"),
    "shared content": (shared, "its tensors share their content"),
    "a sparse tensor": (
        lambda model: torch_file({n: w.to_sparse() for n, w in weights_of(model).items()}),
        "it must hold tensors, each in one piece",
    ),
    "wrong shapes": (
        lambda model: torch_file({n: w.flatten() for n, w in weights_of(model).items()}),
        "its tensors do not fit a model with these settings",
    ),
    "more numbers": (
        lambda model: torch_file(weights_of(model) | {"more": torch.zeros(10)}),
        r"holds \d+ numbers; a model of these settings has \d+",
    ),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_hostile_weights(kind, model, capsys, tmp_path):
    make, message = WEIGHTS[kind]
    put(model, "weights.pt", make(model))
    refused(model, message, "weights.pt", capsys, tmp_path)


def refused(model, message, name, capsys, tmp_path, command="evaluate"):
    """The command ends with one line, and no file is made or changed."""
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}
    code, lines = run(capsys, command, "model")
    assert code == 2 and len(lines) == 1
    assert re.search(rf"^Error: (model/)?{name}: .*{message}", lines[0])
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}
    assert not Path("/pwned").exists()


def test_settings_do_not_ask_for_memory_before_the_numbers_are_there(model, capsys, tmp_path):
    """Tensors that share their content, with as many numbers as a large model has."""
    family = load_family("awd-lstm")
    large = {"embedding_size": 2**13}
    settings = family.settings(**{"layers": 1} | large)
    left = family.architecture.parameters(settings, len(WORDS), "word")
    block, tensors = torch.zeros(2**20), {}
    while left:
        tensors[f"w{len(tensors)}"] = block[:left]
        left -= min(left, len(block))
    put(model, "weights.pt", torch_file(tensors), **large)
    refused(model, "its tensors share their content", "weights.pt", capsys, tmp_path)


OTHERS = {
    "tokens: a pickle": ("tokens.npz", lambda: npz(train=np.array([Touches()])), "cannot be used"),
    "tokens: names that climb": ("tokens.npz", lambda: zipped(("../../pwned.npy", b"")), "train must be"),
    "tokens: a header that lies": (
        "tokens.npz",
        lambda: npz(train=np.zeros(8, "u1")).replace(b"(8,)", b"(9,)"),
        "cannot be used",
    ),
    "tokens: a header of 10^15": (
        "tokens.npz",
        lambda: npz(train=np.zeros(8, "u1")).replace(b"(8,), }" + b" " * 15, b"(1000000000000000,), }"),
        "cannot be used",
    ),
    "words: a deep list": ("vocabulary.json", lambda: b"[" * 10**5, "nested too deeply"),
    "words: twice": ("vocabulary.json", lambda: b'{"unit": "word", "tokens": ["a", "a"]}', "each token once"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_hostile_tokens_and_words(kind, model, capsys, tmp_path):
    name, make, message = OTHERS[kind]
    put(model, name, make())
    refused(model, message, name, capsys, tmp_path)


def test_links_pipes_and_archives_in_place_of_a_folder(model, capsys, tmp_path):
    path = model / "weights.pt"
    path.unlink()
    os.mkfifo(path)
    refused(model, "is not an ordinary file", "weights.pt", capsys, tmp_path)
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(model, "is not an ordinary file", "weights.pt", capsys, tmp_path)
    for name in ("model.tar", "model.zip"):
        Path(name).write_bytes(tarred("model/model.json"))
        for command in ("evaluate", "translate"):
            code, lines = run(capsys, command, name)
            assert code == 2 and len(lines) == 1 and "is not a kept model" in lines[0]


MARIAN = {"num_layers": 1, "num_embed": 8, "num_hidden": 8, "num_heads": 2, "bpe_symbols": 12}
PARALLEL = {"name": "parallel", "source": "de", "target": "en"} | {
    f"{part}_{side}": "text" for part in ("train", "dev", "test") for side in ("source", "target")
}
TRANSLATION = {
    "nothing": ("weights.pt", lambda n: b"", "File is not a zip file"),
    "a tar that climbs": ("weights.pt", lambda n: tarred("../../pwned"), "File is not a zip file"),
    "a zip that climbs": ("weights.pt", lambda n: zipped(("../../pwned", b"pwned")), "cannot be used"),
    "torch's pickle": ("weights.pt", lambda n: torch_file({"a": Touches()}), "cannot be used"),
    "no content": ("weights.pt", lambda n: torch_file({"a": torch.empty(n, device="meta")}), "in one piece"),
    "shared content": (
        "weights.pt",
        lambda n: torch_file(dict.fromkeys("ab", torch.zeros(n // 2))),
        "its tensors share their content",
    ),
    "too few numbers": ("weights.pt", lambda n: torch_file({"a": torch.zeros(n - 1)}), "holds"),
    "other names": ("weights.pt", lambda n: torch_file({"a": torch.zeros(n)}), "its tensors do not fit"),
    "subwords of nothing": ("source.model", lambda n: b"", "is not a sentencepiece model"),
    "subwords that climb": ("target.model", lambda n: tarred("../pwned"), "is not a sentencepiece model"),
}


@pytest.mark.parametrize(
    "kind",
    [  # the first test that makes a model loads transformers, which takes seconds
        pytest.param(kind, marks=[pytest.mark.hosts] if kind == "other names" else []) for kind in TRANSLATION
    ],
)
def test_hostile_translation_models(kind, model, capsys, tmp_path):
    family = load_family("marian")
    if family.missing():
        pytest.skip(f"needs: {family.missing()}")
    from hpobench_nmt.runner.nmt.bpe import Bpe, learn
    from hpobench_nmt.runner.nmt.marian_model import parameters
    from hpobench_nmt.runner.nmt.marian_numbers import vocabulary_size

    settings = family.settings(**MARIAN, learning_rate=0.01)
    subwords = learn(["a b ab ba abba", "b a b"], 8, "source")
    count = parameters(settings, *[vocabulary_size(Bpe(subwords))] * 2)
    new = tmp_path / "new"
    new.mkdir()
    name, make, message = TRANSLATION[kind]
    files = {
        "weights.pt": torch_file({"a": torch.zeros(count)}),
        "source.model": subwords,
        "target.model": subwords,
    }
    for each, content in (files | {name: make(count)}).items():
        (new / each).write_bytes(content)
    record = Record({"a": 1}, 0, 5, "done")
    keep_model(new, model, "marian", settings, PARALLEL, {}, record)
    refused(model, message, name, capsys, tmp_path, "translate")


@pytest.mark.hosts  # writes and reads a GiB, twice
@pytest.mark.parametrize("name", ["weights.pt", "tokens.npz"])
def test_a_gibibyte_takes_no_memory(name, model, tmp_path):
    """Of a tensor, or of an array, where the model has some hundred numbers."""
    small = torch_file({"w": torch.zeros(3)}) if name == "weights.pt" else npz(train=np.zeros(3, "f4"))
    with zipfile.ZipFile(io.BytesIO(small)) as archive, zipfile.ZipFile(model / name, "w") as new:
        for entry in archive.infolist():
            content = archive.read(entry).replace(b"K\x03", b"J\x00\x00\x00\x10")
            if entry.file_size == 12 or entry.filename.endswith(".npy"):
                content = content.removesuffix(bytes(12)).replace(b"(3,)", b"(%d,)" % 2**28)
                with new.open(entry.filename, "w", force_zip64=True) as file:
                    file.write(content)
                    for _ in range(2**6):
                        file.write(bytes(2**24))
            else:
                new.writestr(entry.filename, content)
    put(model, name, None)
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.stderr)"
    )
    command = [
        sys.executable,
        "-m",
        "hpobench_nmt",
        "model",
        "evaluate",
        "model",
        "--text",
        "text",
        "--device",
        "cpu",
    ]
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
    returned, kilobytes, error = done.stdout.split(maxsplit=2)
    message = "holds 268,435,456 numbers" if name == "weights.pt" else "it is larger than 1,073,741,824 bytes"
    assert returned == "2" and message in error and error.count("\n") == 2
    assert int(kilobytes) < 900_000
