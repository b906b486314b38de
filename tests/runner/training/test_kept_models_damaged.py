"""Kept models that are damaged, hostile or half written: they are refused, and the old model stays."""

import hashlib
import json
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

import torch

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.folders import remove_leftovers
from hpobench_nmt.runner.disk.kept_model import kept_file, read_kept
from hpobench_nmt.runner.families.kept import load_language_model
from hpobench_nmt.runner.ledgers.ledger import Record
from hpobench_nmt.runner.settings import Settings
from hpobench_nmt.runner.training.train_row import keep_model


@pytest.fixture
def copy(awd_lstm, tmp_path):
    """A kept model that a test may damage."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in awd_lstm[0].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def rewrite(folder, name, content):
    """Another content of a file, with its right SHA-256 in model.json: as somebody might who means harm."""
    (folder / name).write_bytes(content)
    about = json.loads((folder / "model.json").read_text())
    about["files"][name] = hashlib.sha256(content).hexdigest()
    (folder / "model.json").write_text(json.dumps(about))


def edit(folder, **changes):
    about = json.loads((folder / "model.json").read_text())
    for key, value in changes.items():
        if isinstance(value, dict):
            value = about[key] | value
        about[key] = value
    (folder / "model.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, r"model.json: format 2; this version reads format 1"),
        ({"family": "awd-lstn"}, "unknown model family 'awd-lstn'. Did you mean 'awd-lstm'"),
        ({"settings": {"hidden_sise": 3}}, "unknown setting 'hidden_sise'. Did you mean 'hidden_size'"),
        ({"settings": {"hidden_size": 10**7}}, "hidden_size is 10000000, but goes from 1 to 100000"),
        ({"settings": {"hidden_size": 100_000}}, r"weights.pt: holds 670 numbers; a model .* has 40,0"),
        ({"settings": {"embedding_size": "6"}}, "embedding_size must be a whole number, not '6'"),
        ({"corpus": [1]}, "corpus must be a section"),
        ({"metrics": {"dev_ppl": "abc"}}, "metrics.dev_ppl must be a finite number, not 'abc'"),
        ({"extra": 1}, "unknown key 'extra'"),
    ],
)
def test_a_description_that_is_wrong_is_one_line(copy, changes, message):
    edit(copy, **changes)
    with pytest.raises(InputError, match=message) as error:
        load_language_model(copy, "cpu")
    assert "\n" not in str(error.value)


def test_files_that_are_damaged_links_or_compressed_are_refused(copy, tmp_path):
    path = copy / "weights.pt"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(InputError, match=r"weights.pt: its SHA-256"):
        load_language_model(copy, "cpu")
    rewrite(copy, "weights.pt", content[:-100])
    with pytest.raises(InputError, match=r"weights.pt: cannot be used"):
        load_language_model(copy, "cpu")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights/data.pkl", b"0" * 1000)
    rewrite(copy, "weights.pt", path.read_bytes())
    with pytest.raises(InputError, match="it is compressed"):
        load_language_model(copy, "cpu")
    outside = tmp_path / "elsewhere"
    outside.write_bytes(content)
    path.unlink()
    path.symlink_to(outside)
    with pytest.raises(InputError, match="links are not followed"):
        load_language_model(copy, "cpu")
    path.unlink()
    with pytest.raises(InputError, match="incomplete"):
        load_language_model(copy, "cpu")


class Evil:
    """Its pickle makes a file."""

    def __reduce__(self):
        return Path.touch, (Path("evil"),)


def test_tensors_that_are_not_the_models_are_refused(copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights = torch.load(copy / "weights.pt", weights_only=True)

    def refused(value, message, name="weights.pt"):
        torch.save(value, tmp_path / "new.pt")
        rewrite(copy, name, (tmp_path / "new.pt").read_bytes())
        with pytest.raises(InputError, match=message):
            load_language_model(copy, "cpu")

    statistics = torch.load(copy / "statistics.pt", weights_only=True)
    refused(statistics[::-1], "its tensors do not fit this model", "statistics.pt")
    refused({name: w.double() for name, w in weights.items()}, "do not fit a model with these settings")
    refused({name: torch.zeros(1).expand(w.shape) for name, w in weights.items()}, "in one piece")
    bias = {"output_bias": weights["output_bias"][:, None]}
    refused(weights | bias, "do not fit a model with these settings")
    refused({"x" + name: w for name, w in weights.items()}, "do not fit a model with these settings")
    refused(list(weights.values()), "does not have tensors by name")
    refused({"a": Evil()}, "cannot be used")
    assert not Path("evil").exists()


def test_tokens_out_of_the_vocabulary_are_refused(copy, tmp_path):
    np.savez(tmp_path / "t.npz", train=np.array([1, 2], "u1"), dev=np.array([1, 99], "u1"))
    rewrite(copy, "tokens.npz", (tmp_path / "t.npz").read_bytes())
    with pytest.raises(InputError, match=r"tokens.npz: dev must be numbers of the vocabulary"):
        load_language_model(copy, "cpu")


_SAVE = """
import resource, signal, sys
from functools import partial
from pathlib import Path
from hpobench_nmt.runner.family import Outcome
from hpobench_nmt.runner.families.kept import load_language_model
from hpobench_nmt.runner.lm.kept_files import save_language_model
from hpobench_nmt.runner.training.training_process import _save
kept = load_language_model(Path(sys.argv[1]), "cpu")
save = partial(save_language_model, model=kept.model, corpus=kept.corpus, settings=kept.settings,
               losses={}, statistics=kept.statistics)
for size in map(int, sys.argv[3:]):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    print(_save(Outcome({}, save=save), Path(sys.argv[2])), Path(sys.argv[2]).exists())
"""


def test_a_full_disk_leaves_no_half_of_a_model_and_ends_nothing(awd_lstm, tmp_path):
    resource = pytest.importorskip("resource")
    if not hasattr(resource, "RLIMIT_FSIZE"):
        pytest.skip("the system has no limit on file sizes")
    # The weights take 5 kB, the tokens 4 kB.
    done = subprocess.run(
        [sys.executable, "-c", _SAVE, awd_lstm[0], tmp_path / "new", "1000", "4500", "100000"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["OSError: [Errno 27] File too large False"] * 2 + [" True"]


_KEEP = """
import os, signal, sys
from pathlib import Path
from hpobench_nmt.runner.training.train_row import keep_model
from hpobench_nmt.runner.ledgers.ledger import Record, read_ledger
from hpobench_nmt.runner.settings import Settings
left = int(sys.argv[3])
def counted(function):
    def call(*arguments):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return function(*arguments)
    return call
os.fsync, Path.rename = counted(os.fsync), counted(Path.rename)
new = Path(sys.argv[1])
new.mkdir()
(new / "a").write_text("new")
keep_model(new, Path(sys.argv[2]), "melis", Settings(), {}, {}, Record({"a": 2}, 0, 1, "done"))
print("kept")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_a_kill_leaves_the_old_model_or_the_new_one(tmp_path):
    target = tmp_path / "models" / "key"
    old = tmp_path / "old"
    old.mkdir()
    (old / "a").write_text("old")
    keep_model(old, target, "melis", Settings(), {}, {}, Record({"a": 1}, 0, 1, "done"))
    for step in range(10):
        command = [sys.executable, "-c", _KEEP, tmp_path / f"new{step}", target, str(step)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        remove_leftovers(target.parent)
        about = read_kept(target)
        kept_file(target, about, "a")
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        found = about.configuration["a"], (target / "a").read_text()
        assert found in ((1, "old"), (2, "new"))  # the second where the two folders had been exchanged
    assert step >= 3 and about.configuration == {"a": 2} and (target / "a").read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["key"]
