import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.lm.gpt_model import GPT  # noqa: E402
from hpobench_nmt.runner.lm.gpt_settings import GptSettings  # noqa: E402
from hpobench_nmt.runner.lm.gpt_shape import shape_of  # noqa: E402
from hpobench_nmt.runner.lm.static import static_nll  # noqa: E402

VOCABULARY, CONTEXT = 37, 16
KINDS = [
    {},
    {"positions": "learnt", "norm": "layernorm", "biases": True},
    {"activation": "swiglu", "tied": False},
    {"activation": "swiglu", "biases": True},
]


def model(seed=0, dropout=0.0, scale=2.0, **changes):
    given = {"depth": 2, "width": 24, "heads": 3, "mlp_ratio": 40 / 24, "context": CONTEXT, **changes}
    settings = GptSettings(**given, dropout=dropout)
    made = GPT(shape_of(settings, VOCABULARY), torch.Generator().manual_seed(seed))
    with torch.no_grad():  # initial weights are so small that every token would be as likely as every other
        for p in made.parameters():
            p.mul_(scale) if p.ndim > 1 else p.add_(0.1 * torch.randn(p.shape, generator=made.generator))
    return made.eval()


def tokens(length, batch, seed=1):
    return torch.randint(VOCABULARY, (length, batch), generator=torch.Generator().manual_seed(seed))


def logits(made, hidden):
    return hidden @ made.output_weight.t() + made.output_bias


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_parameters(kind):
    made = model(**kind)
    assert made.shape.parameters == sum(p.numel() for p in made.parameters())
    names = ("output_weight", "output_bias", "input_weight", "positions")
    body = {n: p.numel() for n, p in made.named_parameters() if n not in names}
    assert made.shape.body == sum(body.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_token_sees_its_block_and_the_one_before(kind, batch):
    """Each hidden vector is that of the window which ends with its token, read alone."""
    made, stream, block = model(**kind), tokens(61, batch), CONTEXT // 2
    with torch.no_grad():
        found, _ = made(stream, made.initial_state(batch))
        for i in range(len(stream)):
            start = max(i // block - 1, 0) * block
            alone, _ = made(stream[start : i + 1], made.initial_state(batch))
            torch.testing.assert_close(found[i], alone[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cuts", [[1] * 61, [5, 3, 8, 16, 1, 17, 11], [7, 54], [32, 29]])
def test_a_stream_may_be_cut_anywhere(cuts):
    made, stream = model(), tokens(61, 2)
    with torch.no_grad():
        whole, after = made(stream, made.initial_state(2))
        parts, state = [], made.initial_state(2)
        for piece in stream.split(cuts):
            hidden, state = made(piece, state)
            parts.append(hidden)
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-4, atol=1e-5)
    assert torch.equal(state, after)


def test_nothing_behind_a_token_changes_its_vector():
    made, stream = model(), tokens(40, 1)
    other = stream.clone()
    other[25:] = (other[25:] + 1) % VOCABULARY
    with torch.no_grad():
        first, second = (made(s, made.initial_state(1))[0] for s in (stream, other))
    torch.testing.assert_close(first[:25], second[:25], rtol=0, atol=1e-6)
    assert (first[25:] - second[25:]).abs().amax(-1).min() > 1e-3


def test_in_training_every_sequence_is_a_window_of_its_own():
    made, stream = model(dropout=0.0).train(), tokens(2 * CONTEXT, 2)
    state = made.initial_state(2)
    _, state = made(stream[:CONTEXT], state)
    second, state = made(stream[CONTEXT:], state)
    alone, _ = made(stream[CONTEXT:], made.initial_state(2))
    assert torch.equal(second, alone)
    assert len(state) == 0


def test_dropout_is_of_its_own_generator_and_ends_with_training():
    made, stream = model(dropout=0.5).train(), tokens(CONTEXT, 2)
    state = made.generator.get_state()
    first, _ = made(stream, made.initial_state(2))
    torch.manual_seed(5)
    other, _ = made(stream, made.initial_state(2))
    made.generator.set_state(state)
    again, _ = made(stream, made.initial_state(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    made.eval()
    assert torch.equal(made(stream, made.initial_state(2))[0], made(stream, made.initial_state(2))[0])


def test_floating_point_operations_are_those_that_torch_counts():
    """Attention apart, which torch counts without the causal mask."""
    from torch.utils.flop_counter import FlopCounterMode

    made, batch = model().train(), 2
    with FlopCounterMode(display=False) as counter:
        hidden, _ = made(tokens(CONTEXT, batch), made.initial_state(batch))
        logits(made, hidden).sum().backward()
    counts = counter.get_flop_counts()["Global"]
    products = sum(n for kind, n in counts.items() if "attention" not in str(kind))
    shape = made.shape
    attention = 6 * made.settings.depth * CONTEXT * shape.width
    assert products == (shape.flops - attention) * CONTEXT * batch


def copied(made, reference, pairs):
    with torch.no_grad():
        for ours, theirs in pairs.items():
            made.get_parameter(ours).copy_(theirs)
    return made


def gpt2():
    """A GPT-2 of `transformers`, and ours with its weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(3)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=CONTEXT,
        n_embd=24,
        n_layer=3,
        n_head=3,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        initializer_range=0.3,
        attn_implementation="sdpa",
    )
    theirs = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(0.05 * torch.randn_like(p))
    body = theirs.transformer
    pairs = {
        "output_weight": body.wte.weight,
        "positions": body.wpe.weight,
        "norm.weight": body.ln_f.weight,
        "norm.bias": body.ln_f.bias,
    }
    for i, layer in enumerate(body.h):
        maps = {
            "norm_attention": layer.ln_1,
            "norm_map": layer.ln_2,
            "queries_keys_values": layer.attn.c_attn,
            "attention_output": layer.attn.c_proj,
            "hidden": layer.mlp.c_fc,
            "output": layer.mlp.c_proj,
        }
        for name, part in maps.items():
            # The maps of GPT-2 hold their weights the other way round.
            pairs[f"blocks.{i}.{name}.weight"] = part.weight.t() if part.weight.ndim > 1 else part.weight
            pairs[f"blocks.{i}.{name}.bias"] = part.bias
    shape = {"depth": 3, "mlp_ratio": 4.0, "positions": "learnt", "norm": "layernorm", "biases": True}
    ours = model(scale=1.0, **shape)
    torch.nn.init.zeros_(ours.output_bias)
    return copied(ours, theirs, pairs), theirs


def llama():
    """A Llama of `transformers`, and ours with its weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(4)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=3,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        initializer_range=0.3,
        attn_implementation="sdpa",
    )
    theirs = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(0.05 * torch.randn_like(p))
    body = theirs.model
    pairs = {
        "input_weight": body.embed_tokens.weight,
        "output_weight": theirs.lm_head.weight,
        "norm.weight": body.norm.weight,
    }
    for i, layer in enumerate(body.layers):
        attention, mlp = layer.self_attn, layer.mlp
        queries = [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]
        pairs |= {
            f"blocks.{i}.norm_attention.weight": layer.input_layernorm.weight,
            f"blocks.{i}.norm_map.weight": layer.post_attention_layernorm.weight,
            f"blocks.{i}.queries_keys_values.weight": torch.cat(queries),
            f"blocks.{i}.attention_output.weight": attention.o_proj.weight,
            f"blocks.{i}.gate.weight": mlp.gate_proj.weight,
            f"blocks.{i}.hidden.weight": mlp.up_proj.weight,
            f"blocks.{i}.output.weight": mlp.down_proj.weight,
        }
    ours = model(scale=1.0, depth=3, activation="swiglu", tied=False)
    torch.nn.init.zeros_(ours.output_bias)
    return copied(ours, theirs, pairs), theirs


@pytest.mark.parametrize("pair", [gpt2, llama])
def test_logits_and_gradients_are_those_of_transformers(pair):
    pytest.importorskip("transformers", reason="needs: pip install transformers")
    ours, theirs = pair()
    stream = tokens(CONTEXT, 2)
    hidden, _ = ours(stream, ours.initial_state(2))
    found = logits(ours, hidden).transpose(0, 1)
    expected = theirs(stream.t()).logits
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for each in (found, expected):
        torch.nn.functional.cross_entropy(each[:, :-1].flatten(0, 1), stream.t()[:, 1:].flatten()).backward()
    embedding = theirs.get_input_embeddings().weight.grad
    own = ours.output_weight.grad if ours.settings.tied else ours.input_weight.grad
    torch.testing.assert_close(own, embedding, rtol=1e-4, atol=1e-5)


def test_static_evaluation_reads_windows():
    """Every token's loss is that of a window read alone, as another implementation would."""
    made, stream = model(), tokens(100, 1)[:, 0]
    found, block = static_nll(made, stream.numpy()), CONTEXT // 2
    expected = []
    with torch.no_grad():
        for i in range(len(stream) - 1):
            window = stream[max(i // block - 1, 0) * block : i + 1, None]
            hidden, _ = made(window, made.initial_state(1))
            expected.append(-logits(made, hidden[-1, 0]).log_softmax(0)[stream[i + 1]].item())
    np.testing.assert_allclose(found, expected, rtol=1e-4)
