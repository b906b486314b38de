"""On a CUDA device: the same seed gives the same bytes, and the figures are those of the CPU."""

import json
import signal
import subprocess
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from small_models import CASES, chain, settings_of  # noqa: E402

import hpobench_nmt as hb  # noqa: E402
from hpobench_nmt.runner.families import load_family  # noqa: E402
from hpobench_nmt.runner.family import Job  # noqa: E402
from hpobench_nmt.runner.lm.dynamic import RULES, UpdateRule, dynamic_nll, gradient_rms  # noqa: E402
from hpobench_nmt.runner.lm.fit import fit  # noqa: E402
from hpobench_nmt.runner.lm.measure import measure  # noqa: E402
from hpobench_nmt.runner.lm.neural_cache import NeuralCache, cache_nll  # noqa: E402
from hpobench_nmt.runner.lm.static import static_nll  # noqa: E402
from hpobench_nmt.runner.lm.trainer import train  # noqa: E402
from hpobench_nmt.runner.nmt import marian_gradient  # noqa: E402
from hpobench_nmt.runner.torch_training.repeatable import set_up  # noqa: E402
from hpobench_nmt.runner.torch_training.training_state import Checkpoints  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]
LONGER = {"max_epochs": 3}


@pytest.fixture(scope="module")
def corpus():
    return chain(2000)


def case_settings(name, **changes):
    """Of a training of some 180 updates with several checks of dev."""
    case = CASES[name]
    longer = {"tokens": 180 * 8 * 4, "checks": 6} if case.family == "gpt" else LONGER
    if case.family == "melis":
        longer = longer | {"check_updates": 20}
    return settings_of(case, **longer | changes)


def fitted(name, corpus, device="cuda", checkpoints=None, **changes):
    """The trained parameters, and the course of the training."""
    architecture = load_family(CASES[name].family).architecture
    model, training = fit(architecture, case_settings(name, **changes), corpus, 3, device, checkpoints)
    return [p.detach().cpu() for p in model.parameters()], training


@pytest.mark.parametrize("name", CASES)
def test_a_seed_gives_the_same_bytes_and_a_pause_changes_none(name, corpus, tmp_path):
    expected, whole = fitted(name, corpus)
    again, _ = fitted(name, corpus)
    assert all(map(torch.equal, again, expected))
    if len(whole.curve) == 1:  # a pause comes with a check of dev
        return
    _, first = fitted(name, corpus, checkpoints=Checkpoints(tmp_path, {}, until=50))
    assert first.paused and first.updates < whole.updates
    resumed, second = fitted(name, corpus, checkpoints=Checkpoints(tmp_path, {}))
    assert all(map(torch.equal, resumed, expected))
    assert second.updates == whole.updates


@pytest.mark.parametrize("name", CASES)
def test_a_training_that_draws_nothing_is_that_of_the_cpu(name, corpus):
    case, found = CASES[name], {}
    architecture = load_family(case.family).architecture
    others = ("weight_drop", "zoneout", "zero_state")
    drawn = [k for k in vars(settings_of(case)) if k.startswith("dropout") or k in others]
    slow = {"learning_rate": 1.0} if case.family == "awd-lstm" else {}
    settings = settings_of(case, **dict.fromkeys(drawn, 0.0), **slow)
    for device in ("cpu", "cuda"):
        set_up(device)
        model = architecture.build(settings, 40, "word", torch.Generator().manual_seed(1)).to(device)
        model.generator = torch.Generator(device)
        optimiser, schedule = architecture.course(settings, "word", model)
        training = train(
            model, corpus.train, corpus.dev, optimiser, schedule, torch.Generator().manual_seed(2)
        )
        found[device] = [(point["update"], point["dev_ppl"]) for point in training.curve]
    np.testing.assert_allclose(found["cuda"], found["cpu"], rtol=0.02)


@pytest.mark.parametrize("name", CASES)
def test_what_a_model_is_evaluated_by_is_that_of_the_cpu(name, corpus):
    found = {}
    for device in ("cpu", "cuda"):
        case = CASES[name]
        build = load_family(case.family).architecture.build
        # A generator of each device has draws of its own.
        model = build(settings_of(case), 40, "word", torch.Generator().manual_seed(1)).to(set_up(device))
        dev = corpus.dev
        found[device, "static"] = static_nll(model, dev)
        found[device, "cache"] = cache_nll(model, dev, NeuralCache(10, 0.5, 0.2))
        for rule in RULES:
            if rule == "none" or (rule == "sparse" and not case.sparse):
                continue
            asked = UpdateRule(rule, 0.01, 5, 0.02, 0.001, 8)
            units = asked.units if rule == "sparse" else 0
            rms = gradient_rms(model, corpus.train[:200], 2, 5, units) if asked.needs_rms else None
            found[device, rule] = dynamic_nll(model, dev, asked, rms)
    for what in {what for _, what in found}:
        np.testing.assert_allclose(found["cuda", what], found["cpu", what], rtol=2e-3, err_msg=what)


def test_all_that_is_measured(corpus):
    more = {"dynamic_rule": "rms-rms-prior", "dynamic_statistics": 200, "max_epochs": 8}
    settings = settings_of(CASES["awd-lstm"], cache_window=20, tuning_tokens=0, learning_rate=5, **more)
    model, _ = fit(load_family("awd-lstm").architecture, settings, corpus, 1, "cuda")
    metrics = measure(model, corpus, settings).metrics
    assert metrics["gpu_memory"] > 0
    assert metrics["dev_ppl_dynamic"] < 80
    assert np.exp(static_nll(model, corpus.dev).mean()) == pytest.approx(metrics["dev_ppl"])


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16"])
@pytest.mark.parametrize("name", ["awd-lstm", "melis", "mlstm", "gpt"])
def test_a_training_in_fewer_bits_ends_near_one_in_32(name, precision, corpus):
    found = {}
    for chosen in ("fp32", precision):
        rate = {"learning_rate": 5} if name == "awd-lstm" else {}
        parameters, training = fitted(name, corpus, precision=chosen, accumulate=2, **rate)
        assert {p.dtype for p in parameters} == {torch.float32}
        found[chosen] = min(point["dev_ppl"] for point in training.curve)
    assert found[precision] == pytest.approx(found["fp32"], rel=0.15)
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.filterwarnings("ignore")  # torch's compiler warns of torch itself
@pytest.mark.parametrize("name", ["melis", "mlstm"])
def test_compiled_steps_have_the_same_results(name, corpus):
    (plain, _), (compiled, training) = (fitted(name, corpus, compile=chosen) for chosen in (False, True))
    again, _ = fitted(name, corpus, compile=True)
    assert all(map(torch.equal, again, compiled))
    for mine, other in zip(compiled, plain, strict=True):
        assert float((mine - other).norm()) < 0.1 * float(other.norm()) + 0.05
    assert training.updates > 100


@pytest.fixture
def translation(tmp_path, parallel_files):
    """A job of the family marian, by device and settings."""
    pytest.importorskip("transformers", reason="needs: pip install 'hpobench-nmt[train,marian]'")
    parallel_files(tmp_path)
    parts = [(part, side) for part in ("train", "dev", "test") for side in ("source", "target")]
    corpus = {"name": "parallel", "source": "de", "target": "en"}
    corpus |= {f"{part}_{side}": f"{part}.{side}" for part, side in parts}
    small = {
        "bpe_symbols": 35, "num_layers": 1, "num_embed": 32, "num_hidden": 48, "num_heads": 2,
        "learning_rate": 0.01, "max_length": 20, "batch_size": 400, "checkpoint_interval": 40,
        "max_updates": 120, "dropout": 0.1,
    }  # fmt: skip

    def make(device, **changes):
        settings = load_family("marian").settings(**small | changes)
        return Job(settings, 5, corpus, tmp_path, tmp_path / "cache", tmp_path, device)

    return make


def test_a_translator_is_repeated_paused_and_near_that_of_the_cpu(translation, tmp_path):
    train, times = load_family("marian").train, ("dev_gpu_time", "dev_cpu_time", "train_time")
    whole = train(translation("cuda"))
    metrics = {k: v for k, v in whole.metrics.items() if k not in times and "memory" not in k}
    state = tmp_path / "state"
    paused = train(replace(translation("cuda"), state=state, until=40))
    assert paused.paused and len(paused.curve) == 1
    resumed = train(replace(translation("cuda"), state=state))
    assert {k: resumed.metrics[k] for k in metrics} == metrics
    assert whole.metrics["gpu_memory"] > 0
    # Without dropout, whose masks each device draws itself, trainings are alike until rounding parts them.
    still = {"dropout": 0.0, "attention_dropout": 0.0, "feed_forward_dropout": 0.0}
    there, here = (train(translation(device, **still)) for device in ("cuda", "cpu"))
    assert there.curve[0]["dev_ppl"] == pytest.approx(here.curve[0]["dev_ppl"], rel=0.05)
    assert there.metrics["num_param"] == here.metrics["num_param"]
    short = train(translation("cuda", precision="bf16", **still))
    assert short.curve[0]["dev_ppl"] == pytest.approx(there.curve[0]["dev_ppl"], rel=0.1)


def test_a_translator_trained_by_graphs_is_that_trained_without(translation, monkeypatch):
    train = load_family("marian").train
    by_graphs = train(translation("cuda")).curve
    monkeypatch.setattr(marian_gradient._Graphed, "_found", lambda self, batch: self._function(batch))
    assert [point["dev_ppl"] for point in train(translation("cuda")).curve] == [
        point["dev_ppl"] for point in by_graphs
    ]


SPEC = """
name = "tiny"
family = "awd-lstm"
objectives = ["dev_ppl", "num_param"]
[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"
[grid]
learning_rate = [1, 2, 3, 4]
hidden_size = [16, 24, 32]
[fixed]
layers = 2
embedding_size = 16
batch_size = 4
bptt = 10
max_epochs = 4
"""


def test_jobs_share_a_gpu_and_a_kill_costs_nothing(place, start, wait_for):
    (place / "tiny.toml").write_text(SPEC)
    command = ("train", "tiny.toml", "--out", "rows", "--jobs", "4", "--quiet")
    ledger = place / "rows" / "ledger.jsonl"
    first = start(place, *command, strict=False, stderr=subprocess.PIPE)
    wait_for(lambda: ledger.exists() and ledger.read_bytes().count(b"\n") > 3)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = ledger.read_bytes()
    second = start(place, *command, strict=False, stderr=subprocess.PIPE)
    assert second.wait(timeout=240) == 0, second.stderr.read()
    assert ledger.read_bytes().startswith(before[: before.rindex(b"\n") + 1])
    records = [json.loads(line) for line in ledger.read_text().splitlines()[1:]]
    assert {record["status"] for record in records} == {"done"}
    assert all(record["metrics"]["gpu_memory"] > 0 for record in records)
    assert {record["device"] for record in records} == {f"cuda:0: {torch.cuda.get_device_name()}"}
    assert start(place, "tables", "build", "rows").wait(timeout=60) == 0
    assert len(hb.load_table(place / "rows")) == 12
