"""What several tests of training share. The fixtures import what needs the packages of the runner."""

import pytest


@pytest.fixture(scope="module")
def spec_file(place):
    """tiny.toml, the spec of the tiny trainings, in the module's folder."""
    from tiny_trainings import SPEC

    (place / "tiny.toml").write_text(SPEC)


@pytest.fixture(scope="module")
def awd_lstm(place):
    """A kept model that no test may change, and the metrics of its training."""
    from small_kept_models import MODELS, kept_model

    folder = place / "models" / "awd-lstm"
    return folder, kept_model(place, folder, "awd-lstm", **MODELS["awd-lstm"])
