"""The programs on BoLT of other-optimizers.md, with BoLT's classes and stand-ins for its files."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from hpobench_nmt.cli.main import cli

pytest.importorskip("bolt", reason="bolt-bench is not installed")

PAGE = Path(__file__).parents[2] / "docs/how-to/other-optimizers.md"
TEXT = PAGE.read_text(encoding="utf-8").partition("\n## Run our methods on BoLT's problems\n")[2]
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = re.search(r"```sh\n(.*?)```", TEXT, re.DOTALL)[1].replace("\\\n", "").splitlines()


def program(number):
    """Run a program of the page in the current folder."""
    path = Path(f"program_{number}.py")
    path.write_text(PROGRAMS[number], encoding="utf-8")
    runpy.run_path(str(path))


def network(folder, inputs, outputs):
    """A small network of random weights, as BoLT stores its emulators."""
    import torch
    from bolt.functions.mlp import FeatureNet
    from safetensors.torch import save_file

    torch.manual_seed(0)
    net = FeatureNet(inputs, hidden_dim=8, output_dim=outputs)
    save_file(net.state_dict(), folder / "model.safetensors")
    config = {"input_dim": inputs, "hidden_dim": 8, "output_dim": outputs}
    (folder / "config.json").write_text(json.dumps(config))
    frame = pd.DataFrame({"y_mean": np.full(outputs, 0.5), "y_std": np.full(outputs, 0.1)})
    frame.to_csv(folder / "model_standardize.csv", index=False)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """What is downloaded comes from a folder."""
    monkeypatch.setattr("bolt._utils.hf_hub_download", lambda repo, name, **_: str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.hosts
def test_fine_tuning(files, capsys):
    network(files, 11, 1)
    program(0)
    assert "'target': '" in capsys.readouterr().out


@pytest.mark.hosts
def test_parallelism_becomes_a_table(files, monkeypatch):
    import itertools

    import datasets
    from bolt.problems.parallelism_config import PCO

    import hpobench_nmt as hb

    rows = np.array(list(itertools.product([0, 1, 2], repeat=8)), dtype=float)[::9]
    frame = pd.DataFrame(rows, columns=PCO.input_cols)
    frame["zero_stage"] = frame["zero_stage"].map({0: 0, 1: 2, 2: 3})
    memory = 30.0 + 20.0 * rows[:, 1]
    frame["throughput_mean"] = np.where(memory < 70, rows[:, 0] + 0.1 * rows[:, 2], np.nan)
    frame["peak_mem"] = np.where(memory < 70, memory, np.inf)
    monkeypatch.setattr(
        "bolt.functions.tabular.load_dataset", lambda *_, **__: datasets.Dataset.from_pandas(frame)
    )
    program(1)
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(files / "home"))
    assert CliRunner().invoke(cli, COMMANDS[0].split()[1:]).exit_code == 0
    table = hb.load_table("pco32")
    assert len(table) == len(rows)
    found = table.column("throughput")
    np.testing.assert_array_equal(np.isnan(found), memory >= 70)
    run = CliRunner().invoke(
        cli, [*COMMANDS[1].replace("20", "2").split()[1:], "--jobs", "1", "--methods", "BO_auto"]
    )
    assert run.exit_code == 0, run.output
    assert not hb.load_results(files / "results/pco32").failures()


@pytest.mark.hosts
def test_data_mixtures(files, capsys):
    network(files, 6, 3)
    program(2)
    assert 0.0 < float(capsys.readouterr().out) < 1.5
