"""Journals of tuning runs: which method a folder's run began with."""

import json

import pytest

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.tuning.journal import Journal, begun_with

SETTINGS = {"lookups": 5, "workers": 2, "updates": (20, 60), "seed": 0}


def test_a_run_is_found_by_its_method_and_the_settings_that_are_known(tmp_path):
    settings = {"method": "BO_EI_M_std", "fingerprint": "x", "metrics": ["a"], **SETTINGS}
    journal = Journal.of(tmp_path, settings)
    journal.path.write_text(json.dumps({"tuning": 1, **journal.settings}) + "\n")
    assert begun_with(tmp_path, "BO_EI_M_std", SETTINGS)
    assert not begun_with(tmp_path, "ASHA", SETTINGS)
    for key, other in {"lookups": 6, "workers": 1, "updates": None, "seed": 1}.items():
        assert not begun_with(tmp_path, "BO_EI_M_std", SETTINGS | {key: other})
    assert not begun_with(tmp_path / "none", "BO_EI_M_std", SETTINGS)


@pytest.mark.parametrize("content", ["", "[]\n", "1\n"])
def test_a_journal_without_settings_is_none(content, tmp_path):
    (tmp_path / "tuning-0.jsonl").write_text(content)
    assert not begun_with(tmp_path, "BO_EI_M_std", SETTINGS)


def test_a_damaged_journal_is_named(tmp_path):
    (tmp_path / "tuning-0.jsonl").write_text("{\n")
    with pytest.raises(InputError, match="line 1"):
        begun_with(tmp_path, "BO_EI_M_std", SETTINGS)
