"""Tables in other people's programs: the examples of examples/elsewhere, with the real libraries."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hpobench_nmt as hb

# Other libraries warn of one another.
pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]
FOLDER = Path(__file__).parents[1] / "examples/elsewhere"


def example(name, *libraries):
    """The example as a module, where its libraries are installed."""
    for library in libraries:
        pytest.importorskip(library)
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_optunahub():
    problems = example("optunahub_benchmark", "optunahub")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    problem = problems.TableProblem("lohelp-de-en", ["dev_bleu", "num_param"])
    study = optuna.create_study(directions=problem.directions, sampler=optuna.samplers.RandomSampler(0))
    study.optimize(problem, n_trials=5)
    table = hb.load_table("lohelp-de-en")
    for trial in study.trials:
        assert trial.values == [table.lookup(trial.params)[m] for m in ("dev_bleu", "num_param")]
        assert problem.evaluate(trial.params) == trial.values
    gaps = problems.TableProblem("sotu-dyneval", otherwise="none")  # a grid point has no row
    study = optuna.create_study(directions=gaps.directions, sampler=optuna.samplers.BruteForceSampler())
    study.optimize(gaps)
    ended = [trial.state.name for trial in study.trials]
    assert (
        ended.count("COMPLETE") == len(gaps.table) and ended.count("FAIL") == len(ended) - len(gaps.table) > 0
    )
    nearest = problems.TableProblem("sotu-dyneval")
    (failed, *_) = [t for t in study.trials if t.state.name == "FAIL"]
    assert np.isnan(gaps.evaluate(failed.params)) and np.isfinite(nearest.evaluate(failed.params))


@pytest.mark.skipif("HEBO_PYTHON" not in os.environ, reason="HEBO_PYTHON: the Python of HEBO's environment")
def test_hebo_in_an_environment_of_its_own():
    method = f"cmd(seconds=300):{os.environ['HEBO_PYTHON']} {FOLDER / 'hebo_agent.py'}"
    results = hb.run("quick", tables="lohelp-de-en", methods=[method], trials=1, lookups=5, score_at=5)
    (trial,) = results.trials["lohelp-de-en", results.methods[0]]
    assert not trial.failure
    assert len(set(trial.rows.tolist())) == 5


def test_botorch():
    problem = example("botorch_problem", "botorch").TableProblem("sotu-awd-lstm", ["dev_ppl", "num_updates"])
    import torch

    table = hb.load_table("sotu-awd-lstm")
    losses = table.losses(["dev_ppl", "num_updates"])
    np.testing.assert_array_equal(problem(problem.candidates).numpy(), losses)
    moved = (problem.candidates[:7] + 1e-3).clamp(0, 1)
    np.testing.assert_array_equal(problem(moved).numpy(), losses[:7])
    assert problem(torch.full((1, problem.dim), 0.5, dtype=torch.double)).shape == (1, 2)


def test_syne_tune(tmp_path):
    blackboxes = example("syne_tune_blackbox", "syne_tune")
    blackbox = blackboxes.blackbox_of("lohelp-de-en")
    table = hb.load_table("lohelp-de-en")
    config, curve = table.config(5), table.curves[5]
    metric = [each.name for each in table.curves.metrics].index("dev_bleu")
    for k in (1, len(curve.values), int(table.curves.lengths.max())):
        found = blackbox(config, {"checkpoint": k}, seed=0)
        place = min(k, len(curve.values)) - 1
        assert found == {"loss": -curve.values[place, metric], "cost": curve.costs[place]}
    flops = hb.load_table("sotu-gpt-30k")  # of which the longest training takes an hour
    place, scaled = int(np.argmax(flops.curves.costs)), blackboxes.blackbox_of("sotu-gpt-30k")
    assert flops.curves.cost_unit == "FLOPs" and scaled.objectives_evaluations[..., 1].max() == 3600.0
    ratios = scaled.objectives_evaluations[0, 0, :2, 1] / flops.curves[0].costs[:2]
    np.testing.assert_allclose(ratios, 3600.0 / flops.curves.costs[place])
    pytest.importorskip("fastparquet")
    from syne_tune.blackbox_repository.blackbox_tabular import deserialize, serialize

    serialize({"lohelp-de-en": blackbox}, str(tmp_path / "repository"))
    again = deserialize(str(tmp_path / "repository"))["lohelp-de-en"]
    np.testing.assert_allclose(again.objectives_evaluations, blackbox.objectives_evaluations, rtol=1e-6)


def test_mf_prior_bench():
    module = example("mf_prior_bench_table", "mfpbench")
    table = hb.load_table("lohelp-de-en")
    benchmark = module.benchmark_of("lohelp-de-en", seed=0, prior=table.config(2))
    longest = int(table.curves.lengths.max())
    assert (benchmark.start, benchmark.end, len(benchmark.configs)) == (1, longest, len(table))
    assert benchmark.prior.as_dict() == table.config(2)
    for config in benchmark.sample(5, seed=1):
        row = table.row({name: config[name] for name in table.space.names})
        assert str(row) == config.id
        curve, found = table.curves[row], benchmark.trajectory(config)
        for k, result in enumerate(found):
            place = min(k, len(curve.values) - 1)
            assert [result["dev_ppl"].value, result["dev_bleu"].value] == curve.values[place].tolist()
            assert result.cost == curve.costs[place]
        assert len(found) == longest and result.score == result["dev_bleu"].value == -result.error
    for row in (0, 7):  # found by its values
        assert benchmark.query(table.config(row), at=1).score == table.curves[row].values[0, 1]
    assert dict(benchmark.space.sample_configuration()).keys() == set(table.space.names)
    with pytest.raises(hb.InputError, match="'sotu-dyneval' has no learning curves"):
        module.benchmark_of("sotu-dyneval")


def test_carps(home):
    module = example("carps_task", "carps")
    from carps.utils.trials import TrialInfo
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    config = OmegaConf.create({"seed": 1, **module.task("sotu-awd-lstm")})
    task = instantiate(config.task)
    space = task.input_space.configuration_space
    space.seed(0)
    table = hb.load_table("sotu-awd-lstm")
    values = [
        (c, task.objective_function.evaluate(TrialInfo(c)).cost) for c in space.sample_configuration(200)
    ]
    function = table.function(["dev_ppl"], "nearest")
    assert [cost for _, cost in values] == [function(dict(c)) for c, _ in values]
    strict = module.TableFunction("sotu-awd-lstm", ["dev_ppl"], "none")
    failed = [strict.evaluate(TrialInfo(c)).status.name == "CRASHED" for c, _ in values]
    assert failed == [table.function(["dev_ppl"], "none")(dict(c)) is None for c, _ in values]
    assert any(failed) and not all(failed)


def test_neps(tmp_path):
    module = example("neps_table", "neps")
    import neps

    for name in ("lohelp-de-en", "sotu-dyneval"):
        table, tried = hb.load_table(name), []
        pipeline, loss = module.pipeline_of(name), table.function([table.main_metric], "nearest")

        def noted(tried=tried, pipeline=pipeline, **positions):
            tried.append(positions)
            return pipeline(**positions)

        neps.run(
            noted, module.space_of(name), root_directory=tmp_path / name, optimizer="random_search",
            total_evaluations_to_spend=6,
        )  # fmt: skip
        assert len(tried) == 6
        for positions in tried:
            config = module.config_of(name, positions)
            table.space.encode(config)  # raises if a value is inactive, missing or not of the space
            assert pipeline(**positions) == loss(config)


HYDRA_PROGRAM = """
from dataclasses import dataclass
import hydra
from hydra.core.config_store import ConfigStore

@dataclass
class Config:
    lr: float = 0.001
    layers: int = 2
    rule: str = "sgd"

ConfigStore.instance().store(name="config", node=Config)

@hydra.main(version_base=None, config_name="config")
def main(config):
    if config.layers == 2:
        raise ValueError("too small")
    print("TRIED", config.lr, config.layers, config.rule)
    return abs(config.lr - 0.01) + 0.1 * config.layers + (config.rule == "sgd")

main()
"""


def test_hydra(tmp_path):
    pytest.importorskip("hydra")
    shutil.copytree(FOLDER / "hydra_plugins", tmp_path / "hydra_plugins")
    (tmp_path / "program.py").write_text(HYDRA_PROGRAM)
    words = ["--multirun", "hydra/sweeper=hpobench", "hydra.sweeper.n_trials=14", "hydra.sweep.dir=swept"]
    axes = ["lr=tag(log, interval(1e-4, 1))", "layers=range(2, 6)", "rule=choice(sgd, adam)"]
    command = [sys.executable, "program.py", *words, *axes]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    assert 5 < done.stdout.count("TRIED") <= 14
    best = (tmp_path / "swept" / "optimization_results.yaml").read_text()
    assert "  layers: 3\n" in best and "  rule: adam\n" in best
