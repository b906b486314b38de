"""Every figure of results with one call, and what cannot be drawn."""

import inspect

import pytest

import hpobench_nmt as hb
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.render.plots import one_call
from hpobench_nmt.render.plots.style import new_panels


@pytest.fixture
def single(two):
    return hb.benchmark(two, ["RS", "BO_EI_M_std", "GB_EIF_M"], trials=6)


@pytest.fixture
def multi(toy):
    three = ["bleu", "seconds", "memory"]
    return hb.benchmark(toy, ["RS", "NSGA2"], objectives=three, scores=["fta", "fbh"], trials=6)


def test_every_kind_is_drawn_and_described(single, multi):
    for kind, (draw, options, on_axes) in one_call._KINDS.items():
        several = kind in ("hypervolume", "attained", "front")
        results = multi if several else single
        if kind != "workers":
            figure = hb.plot(results, kind)
            assert any(axes.has_data() or axes.texts for axes in figure.axes)
        if on_axes:
            figure, (left, right) = new_panels(2, (8, 4))
            assert hb.plot(results, kind, ax=right) is figure
            assert right.has_data()
            assert not left.has_data()
        assert f'"{kind}"' in (inspect.getdoc(hb.plot) or "")
        own = [name for name, p in inspect.signature(draw).parameters.items() if p.kind != p.VAR_KEYWORD][2:]
        assert set(own) | {"log"} == set(options) | {"log"}


def test_what_is_drawn_where_nothing_is_named(single, multi):
    assert "simple regret in bleu" in hb.plot(single).axes[0].get_ylabel()
    assert hb.plot(single, table="other").axes[0].get_title() == "other"
    assert "hypervolume" in hb.plot(multi).axes[0].get_ylabel()
    assert hb.plot(multi, "attained", pair=(1, 2)).axes[0].get_ylabel() == "memory (MB)"
    assert "2 tables" in hb.plot(single, "runtimes", per_row=True).axes[0].get_title()
    assert hb.plot(single, "ranks", score="fb").axes[0].get_title().startswith("fb")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "regrets"}, "unknown kind of figure 'regrets'. Did you mean 'regret'"),
        ({"table": "toi"}, "unknown table 'toi'. Did you mean 'toy'"),
        ({"kind": "front", "methods": "RS"}, "unknown option 'methods'. Did you mean 'method'"),
        ({"kind": "front", "pair": (0, 3)}, "pair must be two different places from 0 to 2"),
        ({"kind": "front", "pair": (1, 1)}, "pair must be two different places"),
        ({"kind": "front", "method": "NSGA3"}, "Did you mean 'NSGA2'"),
        ({"kind": "wins", "score": "ftb"}, "unknown score 'ftb'"),
        ({"kind": "regret"}, "for one objective; the run has 3"),
        ({"kind": "ranks"}, "no ranking over tables"),
        ({"kind": "workers"}, "of runs on a clock"),
        ({"kind": "scores", "ax": "axes"}, "has several panels"),
    ],
)
def test_what_cannot_be_drawn(multi, arguments, message):
    with pytest.raises(InputError, match=message):
        hb.plot(multi, **arguments)


def test_workers_of_a_run_on_a_clock(toy):
    results = hb.benchmark(toy, ["RS"], trials=3, workers=2, scores=["ftb"])
    assert hb.plot(results, "workers").axes
    two = hb.benchmark(toy, ["RS"], trials=3, workers=2, scores=["fto"])
    with pytest.raises(InputError, match="these results are on a clock"):
        hb.plot(two, "front")
