"""Figures of matplotlib, drawn to be looked at by tests."""

import io


def drawn(figure):
    """The PNG; drawing it must not warn."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=60)
    assert content.getvalue().startswith(b"\x89PNG")
    return figure


def legend_lines(figure):
    """Line of each label in the legend."""
    axes = figure.axes[0]
    handles, labels = axes.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))
