"""The pictures of a language model as one file: SVG by own drawing, PNG and PDF by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from gambrel.errors import InputError
from gambrel.report.answers import Pictures
from gambrel.report.llm_pictures import pictures
from gambrel.report.options import Options
from gambrel.report.picture import Bars, Chart, Picture, Unit
from gambrel.report.svg import draw_file, formatted
from gambrel.report.text import clean, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS: Final = ("#0072b2", "#d55e00", "#009e73", "#b0508e", "#9a7500", "#555555")
_BOUNDS: Final = {
    "compute": "#d55e00",
    "memory": "#0072b2",
    "network": "#b0508e",
}


def picture(record: Pictures, _options: Options, name: str) -> str | bytes:
    """The pictures below each other.

    Raises:
        InputError: The model is no language model in closed form.
    """
    found = pictures(record.analysis)
    if not found:
        raise InputError(
            f"{record.analysis.model.name}: pictures of batch, context and cache are there for "
            "language models given as config.json, as a folder with one, or as .gguf file."
        )
    return draw_file(found) if name == "svg" else rendered(found, name)


def rendered(found: Sequence[Picture], suffix: str) -> bytes:
    """Pictures drawn by matplotlib, as the bytes of a ``png`` or ``pdf`` file."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: Any = {"font.family": "DejaVu Sans", "font.size": 9, "text.parse_math": False}
    style |= {"pdf.fonttype": 42}
    out = io.BytesIO()
    with mpl.rc_context(style):
        figure = Figure(figsize=(7.2, 3.7 * len(found)), layout="constrained")
        for i, picture in enumerate(found):
            axes = figure.add_subplot(len(found), 1, i + 1)
            axes.set_title(shorten(clean(picture.title), 90), fontsize=10, loc="left")
            if isinstance(picture, Bars):
                _bars(axes, picture)
            else:
                _chart(axes, picture)
        metadata = {"pdf": {"CreationDate": None}}.get(suffix, {})
        figure.savefig(out, format=suffix, dpi=160, metadata=metadata)
    return out.getvalue()


def _chart(axes: Axes, chart: Chart) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=10 if chart.y.unit == "FLOP/byte" else 2)
    for curve in chart.curves:
        x, y = zip(*curve.points, strict=True)
        dots, dashed = curve.style == "dots", curve.style == "dashed"
        axes.plot(
            x,
            y,
            color=_COLORS[curve.color % len(_COLORS)],
            linestyle="none" if dots else "--" if dashed else "-",
            marker="." if dots else None,
            linewidth=1.0 if dashed else 1.6,
            label=shorten(clean(curve.name), 40) or None,
        )
    for level in chart.levels:
        axes.axhline(level.value, color="#222222", linestyle=":", linewidth=1.0)
        said = f"{level.name} {formatted(level.value, chart.y.unit)}"
        axes.annotate(said, (0.01, level.value), xycoords=("axes fraction", "data"), va="bottom")
    if chart.mark:
        axes.plot(
            *chart.mark, marker="*", markersize=11, color="#ffd43b", markeredgecolor="#222222"
        )
    axes.set_xlabel(chart.x.title)
    axes.set_ylabel(chart.y.title)
    _label(axes.xaxis, chart.x.unit)
    _label(axes.yaxis, chart.y.unit)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _label(axis: Any, unit: Unit) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: formatted(value, unit)))
    axis.set_minor_formatter(NullFormatter())


def _bars(axes: Axes, bars: Bars) -> None:
    names = [shorten(clean(row.name), 40) for row in bars.rows]
    colors = [_BOUNDS.get(row.color, "#777777") for row in bars.rows]
    places = range(len(names))
    for j in reversed(range(len(bars.series))):
        values = [row.values[j] for row in bars.rows]
        filled: dict[str, Any] = {"color": colors, "height": 0.4}
        if j:
            filled = {"color": "none", "edgecolor": colors, "height": 0.7}
        axes.barh(places, values, label=bars.series[j], **filled)
    longest = max((v for row in bars.rows for v in row.values), default=1.0)
    for place, row in zip(places, bars.rows, strict=True):
        said = " / ".join(formatted(v, bars.unit) for v in row.values)
        axes.annotate(f" {said}", (max(row.values), place), va="center", fontsize=8)
    axes.set_xlim(0, longest * 1.4)
    axes.set_yticks(list(places), names)
    axes.invert_yaxis()
    forms = ("full", *("outline" for _ in bars.series[1:]))
    said = ", ".join(f"{form}: {name}" for form, name in zip(forms, bars.series, strict=True))
    axes.set_xlabel(said)
    from matplotlib.ticker import FuncFormatter

    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatted(value, bars.unit)))
