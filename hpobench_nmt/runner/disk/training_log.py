"""The log of a training: what its process writes to stdout."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """Write a line, which can be read at once by whoever follows the log."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def progress(position: str, perplexity: float, speed: str, left: float) -> str:
    """A line about a checkpoint. `left` is the longest time until the training ends, in seconds."""
    return f"{position}: dev perplexity {perplexity:.2f}, {speed}, at most {left:.0f} s of training left"
