"""A figure that notebooks show without `%matplotlib inline`."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure

_DPI = 192  # twice what is shown, for screens of high resolution


class NotebookFigure(Figure):
    """A figure outside of pyplot. Jupyter shows pyplot's figures alone, but asks any object for a picture."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        picture = BytesIO()
        self.savefig(picture, format="png", dpi=_DPI)
        width, height = (self.get_size_inches() * _DPI / 2).astype(int).tolist()
        return picture.getvalue(), {"width": width, "height": height}
