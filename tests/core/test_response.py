from __future__ import annotations

import numpy as np
import pytest

from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.response import Response
from hpobench_nmt.core.space import Hyperparameter


@pytest.mark.parametrize(
    ("direction", "losses"), [("max", [-3.0, np.nan, -1.0]), ("min", [3.0, np.nan, 1.0])]
)
def test_a_response_as_losses(direction, losses):
    axis = Hyperparameter("lr", (0.1, 0.2, 0.3))
    configs, values = np.array([[0.1], [0.2], [0.3]]), np.array([3.0, np.nan, 1.0])
    response = Response("zh-en", Objective("bleu", direction), (axis,), configs, values)
    assert len(response) == 3
    np.testing.assert_array_equal(response.losses, losses)
    assert response.where == "table 'zh-en', metric 'bleu'"
