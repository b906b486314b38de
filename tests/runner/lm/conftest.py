"""A second implementation of the fixture `tiny`, to hold it against."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def double() -> Callable[[Any], Any]:
    """Makes a model of torch's own layers, in double precision, with the weights of an AWD-LSTM."""
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

    class Stack(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            vocabulary, size = model.output_weight.shape
            self.embedding = torch.nn.Embedding(vocabulary, size)
            self.decoder = torch.nn.Linear(size, vocabulary)
            self.decoder.weight = self.embedding.weight
            sizes = [size, *model.hidden_sizes]
            self.lstms = torch.nn.ModuleList(torch.nn.LSTM(i, o) for i, o in itertools.pairwise(sizes))
            self.double()
            with torch.no_grad():
                self.decoder.weight.copy_(model.output_weight)
                self.decoder.bias.copy_(model.output_bias)
                for lstm, layer in zip(self.lstms, model.layers, strict=True):
                    for own, given in zip(lstm.parameters(), layer.parameters(), strict=True):
                        own.copy_(given)

        def hidden(self, tokens: Any, states: Any) -> tuple[Any, Any]:
            x, after = self.embedding(tokens), []
            for lstm, state in zip(self.lstms, states, strict=True):
                x, state = lstm(x, state)
                after.append(state)
            return x, after

        def forward(self, tokens: Any, states: Any) -> tuple[Any, Any]:
            x, after = self.hidden(tokens, states)
            return self.decoder(x), after

    return Stack
