import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system.errors import InputError  # noqa: E402
from hpobench_nmt.runner.lm.mc_dropout import mc_nll  # noqa: E402
from hpobench_nmt.runner.lm.melis_model import MelisModel  # noqa: E402
from hpobench_nmt.runner.lm.melis_settings import MelisSettings  # noqa: E402
from hpobench_nmt.runner.lm.mlstm_model import MLSTM  # noqa: E402
from hpobench_nmt.runner.lm.mlstm_settings import MlstmSettings  # noqa: E402
from hpobench_nmt.runner.lm.parameter_budget import ModelShape  # noqa: E402
from hpobench_nmt.runner.lm.static import static_nll  # noqa: E402

WORDS = np.random.default_rng(5).integers(9, size=34)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(params=["awd-lstm", "melis", "mlstm"])
def model(request, tiny):
    if request.param == "awd-lstm":
        return tiny(
            dropout_input=0.3,
            dropout_hidden=0.2,
            dropout_output=0.3,
            dropout_embedding=0.2,
            weight_drop=0.4,
            alpha=1.0,
            beta=1.0,
        )
    if request.param == "melis":
        rates = {f"dropout_{name}": 0.3 for name in ("input", "state", "output")}
        settings = MelisSettings(**rates, dropout_layer=0.2, zero_state=0.5)
        return MelisModel(ModelShape(9, "lstm", 2), (6, 6), settings, seeded())
    sizes = {"embedding_size": 5, "hidden_size": 6, "dropout_embedding": 0.3, "dropout_hidden": 0.3}
    return MLSTM(9, MlstmSettings(**sizes), seeded())


def test_probabilities_are_averaged_over_the_masks(model):
    found = mc_nll(model, WORDS, 3, 7, seeded(4))
    # Each reading by itself, in training, with the masks that come next.
    model.train()
    model.generator, model.zero_state = seeded(4), 0.0
    probabilities = []
    for _ in range(3):
        state, rows = model.initial_state(1), []
        for start in range(0, 33, 7):
            inputs = torch.from_numpy(WORDS[start : min(start + 7, 33), None])
            hidden, state = model(inputs, state)
            rows.append(hidden[:, 0].double() @ model.output_weight.double().T + model.output_bias.double())
        softmax = torch.cat(rows).detach().softmax(1).numpy()
        probabilities.append(softmax[np.arange(33), WORDS[1:]])
    assert found == pytest.approx(-np.log(np.mean(probabilities, axis=0)), rel=1e-5)
    assert abs(found - static_nll(model, WORDS)).max() > 1e-3


def test_the_model_is_left_as_it_was(model):
    model.eval()
    own, state, zero = model.generator, model.generator.get_state(), getattr(model, "zero_state", 0.0)
    mc_nll(model, WORDS, 2, 7, seeded())
    assert not model.training
    assert model.generator is own and torch.equal(own.get_state(), state)
    assert model.zero_state == zero
    assert model.regularisation() == 0.0


def test_probabilities_sum_to_one_and_no_word_is_seen_before_it_is_predicted(model):
    ends = [mc_nll(model, np.append(WORDS[:20], word), 2, 7, seeded()) for word in range(9)]
    assert np.exp([-nll[-1] for nll in ends]).sum() == pytest.approx(1.0, abs=1e-5)
    assert all((nll[:-1] == ends[0][:-1]).all() for nll in ends)


def test_without_dropout_it_is_static_evaluation(tiny):
    model = tiny()
    assert mc_nll(model, WORDS, 2, 10, seeded()) == pytest.approx(static_nll(model, WORDS), abs=1e-5)


def test_no_masks_are_refused(tiny):
    for masks, steps in ((0, 5), (5, 0)):
        with pytest.raises(InputError, match="at least 1 mask"):
            mc_nll(tiny(), WORDS, masks, steps, seeded())
