from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings

GOOD = {
    "starts": [0, 2, 3],
    "resources": [1.0, 2.0, 1.0],
    "costs": [3.0, 4.0, 0.5],
    "losses": [[1.0], [0.5], [2.0]],
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"costs": [3.0, 3.0, 0.5]}, "row 0, checkpoint 2: costs must be finite, 0 or more, and increase"),
        ({"costs": [3.0, 2.0, 0.5]}, "row 0, checkpoint 2: costs"),
        ({"costs": [3.0, 4.0, -0.5]}, "row 1, checkpoint 1: costs .* there it is -0.5"),
        ({"costs": [3.0, np.nan, 0.5]}, "row 0, checkpoint 2: costs .* there it is nan"),
        ({"costs": [3.0, np.inf, 0.5]}, "there it is inf"),
        ({"resources": [2.0, 1.0, 1.0]}, "row 0, checkpoint 2: resources"),
        ({"resources": [1.0, 2.0]}, "2 resources, 3 costs"),
        ({"costs": [3.0, 4.0]}, "3 resources, 2 costs"),
        ({"resources": [-1.0, 2.0, 1.0]}, "row 0, checkpoint 1: resources .* there it is -1"),
        ({"losses": [1.0, 2.0, 3.0]}, "losses of shape"),
        ({"starts": [0, 3, 3]}, "row 1 has no checkpoint"),
        ({"starts": [0, 2]}, "starts must go from 0"),
        ({"starts": [1, 2, 3]}, "starts must go from 0"),
        ({"starts": [0]}, "starts must go from 0"),
        ({"starts": [0], "resources": [], "costs": [], "losses": np.empty((0, 1))}, "starts must go from 0"),
        ({"starts": [], "resources": [], "costs": [], "losses": np.empty((0, 1))}, "starts must go from 0"),
    ],
)
def test_what_is_no_training_is_refused(change, reason):
    with pytest.raises(InputError, match=reason):
        Trainings(**(GOOD | change))


def test_a_cost_of_0_everywhere_is_refused_but_some_rows_may_be_free():
    with pytest.raises(InputError, match="0 everywhere"):
        Trainings.whole(np.zeros((3, 1)), np.zeros(3))
    assert len(Trainings.whole(np.zeros((3, 1)), np.array([0.0, 1.0, 0.0]))) == 3


def test_arrays_are_copied_and_frozen():
    losses = np.zeros((2, 1))
    made = Trainings.whole(losses)
    losses[:] = 1.0
    assert made.losses.tolist() == [[0.0], [0.0]]
    for array in (made.starts, made.resources, made.costs, made.losses, made.best):
        assert not array.flags.writeable
    assert not Trainings(**GOOD).best.flags.writeable
    assert repr(Trainings(**GOOD)) == "Trainings(2 rows, 3 checkpoints, can be resumed)"
    assert repr(Trainings(**GOOD, resume=False)) == "Trainings(2 rows, 3 checkpoints, cannot be resumed)"


def test_whole_numbers_become_doubles_and_starts_stay_whole():
    made = Trainings([0, 2, 3], [1, 2, 1], [3, 4, 1], [[1], [5], [2]])
    assert [array.dtype.kind for array in made.arrays] == ["i", "f", "f", "f", "f"]


@pytest.mark.parametrize(
    ("costs", "lookups"), [([1.0, 1.0], True), ([1.0, 2.0], False), ([2.0, 2.0], False), ([0.0, 1.0], False)]
)
def test_look_ups_have_one_checkpoint_that_takes_one_unit_of_time(costs, lookups):
    assert Trainings.whole(np.zeros((2, 1)), np.array(costs)).are_lookups == lookups
    assert not Trainings([0, 2, 3], [1.0, 2.0, 1.0], [1.0, 2.0, 1.0], np.zeros((3, 1))).are_lookups
    assert not Trainings([0, 2], [1.0, 2.0], [0.5, 1.0], np.zeros((2, 1))).are_lookups


@pytest.mark.parametrize(
    ("n_losses", "models"), [(1, [[1.0], [2.0]]), (2, [[1.0] * 2, [5.0] * 2, [2.0] * 2])]
)
def test_checkpoints_are_models_of_their_own_where_there_are_several_losses(n_losses, models):
    losses = np.repeat([[1.0], [5.0], [2.0]], n_losses, axis=1)
    made = Trainings([0, 2, 3], [1.0, 2.0, 1.0], [3.0, 4.0, 1.0], losses)
    assert made.checkpoints_count == (n_losses > 1)
    assert made.models.tolist() == models
    assert not made.final.flags.writeable
    assert made.whole_costs.tolist() == [4.0, 1.0] and made.owners.tolist() == [0, 0, 1]
    assert not Trainings.whole(losses).checkpoints_count


def test_places_of_checkpoints_by_row_and_resource():
    made = Trainings([0, 3, 4, 6], [1.0, 2.0, 4.0, 3.0, 2.0, 8.0], np.arange(1.0, 7.0), np.zeros((6, 1)))
    rows, resources = np.array([0, 2, 1, 0, 2, 0]), np.array([4.0, 8.0, 3.0, 1.0, 2.0, 2.5])
    assert made.place_of(rows, resources).tolist() == [2, 5, 3, 0, 4, 2]
    lookups = Trainings.whole(np.zeros((9, 1)))
    assert lookups.place_of(np.arange(9), np.ones(9)).tolist() == list(range(9))


def test_what_trainings_to_their_end_have_found_and_every_array_that_could_be_shown():
    made = Trainings([0, 2, 4], [1.0, 2.0, 1.0, 2.0], [3.0, 4.0, 1.0, 2.0], [[1.0], [5.0], [4.0], [2.0]])
    assert made.final.tolist() == [[1.0], [2.0]]
    assert made.best.tolist() == [[1.0], [1.0], [4.0], [2.0]]
    assert [array.tolist() for array in made.arrays] == [
        [0, 2, 4],
        [1.0, 2.0, 1.0, 2.0],
        [3.0, 4.0, 1.0, 2.0],
        [[1.0], [5.0], [4.0], [2.0]],
        [[1.0], [1.0], [4.0], [2.0]],
    ]


@given(st.data())
def test_the_best_so_far_agrees_with_a_naive_twin(data):
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    values = st.sampled_from([0.0, -0.0, 1.0, 2.0, -3.0, np.inf, np.nan])
    count = sum(lengths)
    losses = np.array(data.draw(st.lists(st.tuples(values, values), min_size=count, max_size=count)))
    starts = np.cumsum([0, *lengths])
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    best = Trainings(starts, steps, steps, losses).best
    for first, end in pairwise(starts):
        held = None
        for i in range(first, end):
            known = not np.isnan(losses[i, 0])
            if held is None or (known and not losses[held, 0] <= losses[i, 0]):
                held = i
            np.testing.assert_array_equal(best[i], losses[held])
