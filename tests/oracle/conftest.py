"""All tests of this folder are marked `oracle`: `pytest -m oracle` runs them."""

from pathlib import Path

import pytest


def pytest_itemcollected(item):
    if Path(__file__).parent in item.path.parents:
        item.add_marker(pytest.mark.oracle)
