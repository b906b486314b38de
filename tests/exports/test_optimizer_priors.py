"""Priors in `Optimizer` and `minimize`."""

import pytest

import hpobench_nmt as hb
from hpobench_nmt.core.errors import InputError

SPACE = {"x": (0.0, 1.0), "kind": ["a", "b"]}


def loss(config):
    return (config["x"] - 0.3) ** 2 + (config["kind"] == "b")


def test_a_prior_guides_the_first_rows_and_is_saved(tmp_path):
    def begun(prior):
        optimizer = hb.Optimizer(SPACE, "piBO_M_std", n_initial=0, prior=prior)
        for _ in range(4):
            config = optimizer.ask()
            optimizer.tell(config, loss(config))
        return optimizer

    guided = begun({"x": 0.9})
    assert guided.told[0][0]["x"] > 0.5
    assert [c for c, _ in guided.told] != [c for c, _ in begun(None).told]
    guided.save(tmp_path / "state.json")
    again = hb.Optimizer.load(tmp_path / "state.json")
    assert again.state.prior == {"x": 0.9}
    assert again.ask() == guided.ask()


def test_minimize_with_a_prior_resumes_with_the_same_one_alone(tmp_path):
    state = tmp_path / "state.json"
    found = hb.minimize(loss, SPACE, "piBO_M_std", budget=5, prior={"x": 0.25}, state=state)
    assert len(found.configs) == 5
    with pytest.raises(InputError, match="the state of another call, with another prior"):
        hb.minimize(loss, SPACE, "piBO_M_std", budget=6, state=state)
    with pytest.raises(InputError, match="unknown hyperparameter 'y'"):
        hb.minimize(loss, SPACE, "piBO_M_std", prior={"y": 1})
    with pytest.raises(InputError, match="the space: prior: "):
        hb.minimize(loss, SPACE, "piBO_M_std", prior={"kind": "c"})
