"""Where figures are drawn: matplotlib, as SVG that is text and needs no script.

matplotlib is imported when something is drawn: Markdown and JSON need none.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from autotune.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 9.2
"""Inches; the page is as wide."""
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#b2182b",
    "#cc79a7",
    "#6e7781",
)
"""Told apart by the colour-blind, too (Okabe and Ito)."""
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    # What looks like mathematics in a name is a name.
    "text.parse_math": False,
    "text.usetex": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "grid.color": "#e6e9ec",
    "axes.axisbelow": True,
    "legend.frameon": False,
}


class Canvas:
    """One figure; `svg` is there when it has been drawn."""

    def __init__(self, axes: "Axes") -> None:
        self.axes = axes
        self.svg = ""


def check_drawing() -> None:
    """Raises UserError if figures can't be drawn here."""
    try:
        import matplotlib.figure  # noqa: F401, PLC0415 - heavy, and in an extra
    except ImportError as error:
        raise UserError(
            f"the figures need matplotlib, which can't be imported: {error}",
            hint="pip install 'autotune-train[report]', or take --to md or --to json",
        ) from None


@contextmanager
def canvas(name: str, height: float, width: float = WIDTH) -> Iterator[Canvas]:
    """Axes to draw on. `name` is the figure's own in the page; sizes are inches."""
    import matplotlib as mpl  # noqa: PLC0415 - heavy, and in an extra
    from matplotlib.figure import Figure  # noqa: PLC0415

    # The salt makes the ids in a figure its own, and the same for the same report.
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(width, height), layout="constrained")
        drawn = Canvas(figure.add_subplot())
        yield drawn
        text = io.StringIO()
        # The creator's name has an address in it, and a date would differ each time.
        figure.savefig(text, format="svg", metadata={"Creator": None, "Date": None})
        drawn.svg = _element(text.getvalue())


def shortened(text: str, most: int = 60) -> str:
    """A label that leaves room for the figure."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _element(svg: str) -> str:
    """The svg element alone: what is before it has no place in a page."""
    return svg[svg.index("<svg") :]
