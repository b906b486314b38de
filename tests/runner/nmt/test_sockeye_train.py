"""The copies of Sockeye's folder that a training goes on from."""

import json

import pytest

from hpobench_nmt.runner.nmt.sockeye_train import ARGUMENTS, latest_copy

SAVED = ["--seed", "1", "--device-id", "0"]  # as earlier versions wrote it


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (["--seed", "1", "--max-updates", "100", "--device-id", "0"], True),
        (["--seed", "1", "--max-updates", "200", "--device-id", "0"], True),
        (["--seed", "1", "--max-updates", "100", "--device-id", "1"], True),
        (["--seed", "2", "--max-updates", "100", "--device-id", "0"], False),
        (["--seed", "1", "--max-updates", "100", "--use-cpu"], False),
    ],
)
def test_a_training_goes_on_further_and_on_another_gpu_but_is_no_other(tmp_path, now, same):
    copy = tmp_path / "checkpoint-00003"
    copy.mkdir()
    (copy / ARGUMENTS).write_text(json.dumps(SAVED))
    assert latest_copy(tmp_path, now) == (copy if same else None)
