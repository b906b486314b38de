"""How dynamic evaluation changes a model, as in Krause et al. (2018), sections 7.4 and 7.5.

    losses_of_parts     the loss of every token of many sequences, read separately or as one stream
    timescales          these losses, averaged over the sequences, against the number of tokens read
    adaptation_curve    static and dynamic loss against the number of tokens read (figure 2)
    word_effect         how the probabilities of a word and of others change after the word was seen (table 6)
    sample              text that the adapted model, or the static one, writes after a context (appendix)

Reading never looks ahead: the probability of a token depends only on the tokens before it. The model is not
changed. `rms` comes from `gradient_rms`, for the rules that need it. `window` is the number of tokens that
are averaged into one point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hpobench_nmt.core.arrays import Floats, Ints, Tokens
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.lm.dynamic import AdaptingReader, Rms, UpdateRule, adapting_reader, dynamic_nll
from hpobench_nmt.runner.lm.language_model import LanguageModel, State, pieces
from hpobench_nmt.runner.lm.static import static_nll

Evaluation = Callable[[Tokens], Floats]
"""From a stream to the negative log-likelihood (nats) of every token except the first."""


def losses_of_parts(tokens: Tokens, parts: int, evaluate: Evaluation, carried_on: bool = False) -> Floats:
    """The losses in many sequences, of all their tokens except the first, shape (parts, length - 1).

    The stream is cut into `parts` sequences of equal length; tokens left over at its end are not read. Each
    sequence begins with an empty state and the trained weights, as in the paper. With `carried_on`, it begins
    with the state and weights after the sequence before it.

    Raises InputError if there are too few tokens for `parts` sequences of two.
    """
    length = len(tokens) // parts if parts > 0 else 0
    if length < 2:
        raise InputError(f"{len(tokens):,} tokens cannot be cut into {parts:,} sequences of 2 or more.")
    if not carried_on:
        return np.stack([evaluate(tokens[k * length : (k + 1) * length]) for k in range(parts)])
    losses = evaluate(tokens[: parts * length])
    # Here the first token of a sequence is predicted as well, from the sequence before it. It is left out.
    return np.append(losses, np.nan).reshape(parts, length)[:, :-1]


def timescales(
    model: LanguageModel, tokens: Tokens, parts: int, rule: UpdateRule, rms: Rms = None, window: int = 100
) -> pd.DataFrame:
    """Mean losses of many sequences against the number of tokens read (figure 2a).

    The stream is cut into `parts` sequences. The paper has 500 sequences of 10,000 characters.

    Returns:
        one row per window: position (of its first predicted token), tokens, and mean losses in nats. static
        and dynamic begin each sequence with an empty state and the trained weights; static_carried and
        dynamic_carried read the same tokens as one stream.

    Raises InputError if there are too few tokens for `parts` sequences of two, or the window is below 1.
    """
    _check_window(window)
    evaluations: dict[str, Evaluation] = {
        "static": partial(static_nll, model),
        "dynamic": partial(dynamic_nll, model, rule=rule, rms=rms),
    }
    losses = {
        name + ("_carried" if carried else ""): losses_of_parts(tokens, parts, evaluate, carried).mean(axis=0)
        for carried in (False, True)
        for name, evaluate in evaluations.items()
    }
    return _windows(np.arange(1, len(losses["static"]) + 1), losses, window)


def adaptation_curve(
    model: LanguageModel,
    sequences: Sequence[Tokens],
    rule: UpdateRule,
    rms: Rms = None,
    change: int = 0,
    window: int = 100,
) -> pd.DataFrame:
    """Static and dynamic loss against the number of tokens read, averaged over sequences (figure 2).

    The sequences have equal length. Each is read with an empty state and the trained weights at its start. To
    study the adaptation to another corpus, join two: `np.concatenate([first, second])` with
    `change = len(first)`. Positions count from the change, and no window lies on both sides of it.

    Returns:
        one row per window: position (of its first predicted token), tokens, static and dynamic (mean losses
        in nats, not cumulative).

    Raises InputError if the sequences differ in length or have one token, if the change lies outside them, or
    if the window is below 1.
    """
    lengths = {len(sequence) for sequence in sequences}
    if len(lengths) != 1 or min(lengths) < 2:
        raise InputError("the sequences must have one length, of 2 tokens or more.")
    (length,) = lengths
    if not 0 <= change < length:
        raise InputError(f"the change, at token {change:,}, is not within sequences of {length:,} tokens.")
    _check_window(window)
    static = np.mean([static_nll(model, sequence) for sequence in sequences], axis=0)
    dynamic = np.mean([dynamic_nll(model, sequence, rule, rms) for sequence in sequences], axis=0)
    return _windows(np.arange(1, length) - change, {"static": static, "dynamic": dynamic}, window)


def _windows(position: Ints, losses: Mapping[str, Floats], window: int) -> pd.DataFrame:
    """Mean losses of windows that begin at multiples of `window`, with their first position and size."""
    frame = pd.DataFrame({"position": position, **losses})
    grouped = frame.groupby(position // window, sort=True)
    means = grouped[list(losses)].mean()
    means.insert(0, "position", grouped["position"].first())
    means.insert(1, "tokens", grouped.size())
    return means.reset_index(drop=True)


def word_effect(
    model: LanguageModel, tokens: Tokens, position: int, rule: UpdateRule, rms: Rms = None
) -> pd.DataFrame:
    """How the update on a segment changes the log-probability of every word at one position (table 6).

    The stream is read with dynamic evaluation up to the segment that predicts the token at `position` (at
    least 1). The model predicts that segment, is adapted to it, and predicts it again from the same state.
    Later segments are not read.

    Returns:
        one row per word of the vocabulary, in its order: cosine (of the trained output embeddings of the word
        and the token), before and after (log-probabilities, nats), and change (after - before).

    Raises InputError for a position outside the stream, and for 0, because the first token is not predicted.
    """
    if not 1 <= position < len(tokens):
        raise InputError(f"token {position:,} is not one of the {len(tokens) - 1:,} predicted ones.")
    weight = model.output_weight.detach().clone()
    with adapting_reader(model, rule, rms) as reader:
        for number, piece in enumerate(pieces(model, tokens, 1, rule.segment)):
            start, state = number * rule.segment, reader.state
            if position <= start + rule.segment:
                break
            reader.read(piece)
        step = position - start - 1
        before = _log_probabilities(model, reader, piece[:-1], state)[step]
        reader.read(piece)
        after = _log_probabilities(model, reader, piece[:-1], state)[step]
    word = weight[int(tokens[position])]
    cosine = torch.nn.functional.cosine_similarity(weight, word[None])
    found = {"cosine": cosine, "before": before, "after": after, "change": after - before}
    return pd.DataFrame({name: value.cpu().numpy().astype(np.float64) for name, value in found.items()})


def sample(
    model: LanguageModel,
    context: Tokens,
    count: int,
    rule: UpdateRule | None,
    rng: np.random.Generator,
    rms: Rms = None,
) -> tuple[Tokens, Floats]:
    """Text that the model writes after a context, and the negative log-likelihood of each of its tokens.

    With a rule, the model is adapted to the context, which has at least 1 token, and then to its own text:
    the weights are fixed while it writes a segment, and are then updated on that segment (section 3). Without
    a rule, the model stays as it was trained. The losses equal those of `dynamic_nll`, or `static_nll`, on
    context and text as one stream. `rng` draws one number for each of the `count` tokens.
    """
    if not len(context):
        raise InputError("a text needs a context of at least one token.")
    still = UpdateRule("sgd", 0.0, segment=len(context) + count)
    written: list[int] = []
    losses: list[float] = []
    device = model.output_weight.device
    with adapting_reader(model, rule or still, rms) as reader:
        segment = (rule or still).segment
        whole = (len(context) - 1) // segment * segment
        for piece in pieces(model, context[: whole + 1], 1, segment):
            reader.read(piece)
        # The text completes the segment in which the context ends.
        unread = read_so_far = context[whole:].tolist()
        state = reader.state
        while len(written) < count:
            hidden, state = reader.look(torch.tensor(unread, device=device)[:, None], state)
            log_p = _log_softmax(model, hidden[-1:])[0].double().cpu().numpy()
            token = _draw(np.exp(log_p), rng)
            written.append(token)
            losses.append(-float(log_p[token]))
            read_so_far = [*read_so_far, token]
            unread = [token]
            if len(read_so_far) == segment + 1:
                reader.read(torch.tensor(read_so_far, device=device)[:, None])
                read_so_far, state = [token], reader.state
    return np.array(written, dtype=np.int64), np.array(losses)


def _check_window(window: int) -> None:
    if window < 1:
        raise InputError(f"a window has at least 1 token, not {window}.")


def _draw(probabilities: Floats, rng: np.random.Generator) -> int:
    """An index drawn with these probabilities: the first whose cumulative sum exceeds a uniform number."""
    total = np.cumsum(probabilities)
    return int(np.searchsorted(total, rng.random() * total[-1], side="right"))


def _log_probabilities(model: LanguageModel, reader: AdaptingReader, inputs: Tensor, state: State) -> Tensor:
    """Log-probabilities of every word after each input, shape (T, V), with the weights as they are now."""
    hidden, _ = reader.look(inputs, state)
    return _log_softmax(model, hidden)


def _log_softmax(model: LanguageModel, hidden: Tensor) -> Tensor:
    with torch.no_grad():
        flat = hidden.reshape(-1, hidden.shape[-1])
        return torch.addmm(model.output_bias, flat, model.output_weight.t()).log_softmax(1)
