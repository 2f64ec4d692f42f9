"""What every picture needs: matplotlib, a file name that can be drawn to, labels as plain text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuckerkg.errors import TuckerkgError, printable


def pyplot() -> Any:
    """Matplotlib's pyplot, without a screen."""
    try:
        import matplotlib as mpl  # noqa: PLC0415
    except ImportError as error:
        raise TuckerkgError("plots need matplotlib: pip install 'tuckerkg[plots]'") from error
    mpl.use("Agg")
    from matplotlib import pyplot as found  # noqa: PLC0415

    return found


def check_plot(path: Path) -> None:
    """Refuses what could not be drawn, before anything is computed."""
    pyplot()
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise TuckerkgError(f"--plot {path}: the name must end in .png, .svg or .pdf")
    if not path.resolve().parent.is_dir():
        raise TuckerkgError(f"--plot {path}: there is no folder {path.resolve().parent}")


def plain(text: str, width: int) -> str:
    """Without signs that matplotlib reads as mathematics; cut to ``width`` from the left, where names differ least."""
    text = printable(text).replace("$", r"\$")
    return text if len(text) <= width else "..." + text[-(width - 3) :]
