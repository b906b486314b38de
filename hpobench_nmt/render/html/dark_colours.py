"""Colours of the report on a dark ground."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

# Luminances on the dark ground: of colours that are dark on white, and the least of all others. Far enough
# apart that a method of the second row of colours is told from one of the first.
_OF_DARK, _LEAST = 0.5, 0.15
_DARK = 0.12
_STEPS = 400


def on_dark(colour: str) -> str:
    """A colour that stands out on the dark ground, of the same hue; dark ones become the lightest."""
    from matplotlib.colors import to_hex, to_rgb

    hue, lightness, saturation = colorsys.rgb_to_hls(*to_rgb(colour))
    wanted = _OF_DARK if luminance(to_rgb(colour)) < _DARK else _LEAST
    for step in range(_STEPS + 1):
        rgb = colorsys.hls_to_rgb(hue, lightness + (1 - lightness) * step / _STEPS, saturation)
        if luminance(rgb) >= wanted:
            break
    return str(to_hex(rgb))


def luminance(rgb: Sequence[float]) -> float:
    """Relative luminance, as the Web Content Accessibility Guidelines define it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
