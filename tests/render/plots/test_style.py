"""Colours: those of methods can be told apart by everybody, on white and on the dark ground of the report."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from hpobench_nmt.render.html.page import luminance, on_dark
from hpobench_nmt.render.plots.style import COLOURS, method_styles

# Machado, Oliveira and Fernandes (2009): what readers without one kind of cone see, in linear RGB.
SIGHT = {
    "all cones": np.eye(3).ravel(),
    "protanopia": (
        0.152286,
        1.052583,
        -0.204868,
        0.114503,
        0.786281,
        0.099216,
        -0.003882,
        -0.048116,
        1.051998,
    ),
    "deuteranopia": (
        0.367322,
        0.860646,
        -0.227968,
        0.280085,
        0.672501,
        0.047413,
        -0.01182,
        0.04294,
        0.968881,
    ),
    "tritanopia": (1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])
DARK_GROUND = "#14171a"


def lab(colour, sight):
    """CIELAB coordinates of a colour as it is seen."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = XYZ @ np.clip(np.reshape(sight, (3, 3)) @ linear, 0, 1) / WHITE
    f = [np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def least_distance(colours, sight):
    seen = [lab(colour, sight) for colour in colours]
    return min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))


def contrast(colour, ground):
    light, dark = sorted((luminance(to_rgb(colour)), luminance(to_rgb(ground))), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("sight", SIGHT.values(), ids=SIGHT)
@pytest.mark.parametrize("ground", ["white", DARK_GROUND])
def test_methods_can_be_told_apart_by_their_colours(sight, ground):
    shown = COLOURS if ground == "white" else [on_dark(c) for c in COLOURS]
    assert least_distance([*shown, "black" if ground == "white" else "white"], sight) > 10


@pytest.mark.parametrize("method", range(24))
def test_every_colour_stands_out(method):
    style = method_styles([f"m{i}" for i in range(24)])[f"m{method}"]
    assert contrast(style.colour, "white") >= 3
    assert contrast(on_dark(style.colour), DARK_GROUND) >= 3


def test_what_is_near_in_colour_differs_in_dash_and_marker():
    styles = list(method_styles([f"m{i}" for i in range(12)]).values())[1:]
    for one, other in itertools.combinations(styles, 2):
        assert one.marker != other.marker
        for sight in SIGHT.values():
            for shown in (str, on_dark):
                near = least_distance([shown(one.colour), shown(other.colour)], sight) < 5
                assert not near or one.dash != other.dash
