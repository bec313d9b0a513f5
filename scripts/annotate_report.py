"""The annotated roofline of the tutorial: numbered callouts over the picture of a real answer.

    gambrel analyze resnet50 --hardware a100 --roofline -o docs/images/resnet50-a100.svg
    python scripts/annotate_report.py

Callouts sit where the picture itself says (its labels and marks), so that they move with it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

IMAGES: Final = Path(__file__).resolve().parent.parent / "docs" / "images"
#: Room on the right of the picture for the sentences.
MARGIN: Final = 20.0
LINE: Final = 17.0

STYLE: Final = """
.note circle { fill: #b3261e; } .note text { fill: #ffffff; font-weight: 700; font-size: 12px; }
.note line { stroke: #b3261e; stroke-width: 1.2; } .said text { font-size: 12px; }
"""


def place(svg: str, label: str) -> tuple[float, float]:
    """Where a label of the picture begins or ends.

    Raises:
        SystemExit: The picture has no such label.
    """
    for tag in re.findall(r"<text[^>]*>" + label, svg):
        turned = re.search(r"translate\(([\d.]+) ([\d.]+)\)", tag)
        if turned:
            return float(turned[1]), float(turned[2])
        x, y = re.search(r'x="([\d.]+)"', tag), re.search(r'y="([\d.]+)"', tag)
        if x and y:
            return float(x[1]), float(y[1])
    raise SystemExit(f"the picture has no label {label!r}; was it drawn by 'gambrel analyze'?")


def middle(svg: str, mark: str) -> tuple[float, float]:
    """The middle of the first polygon or circle of a class."""
    drawn = re.search(rf'<polygon class="{mark}[^"]*" points="([^"]+)"', svg)
    if drawn:
        pairs = [tuple(map(float, pair.split(","))) for pair in drawn[1].split()]
        return sum(p[0] for p in pairs) / len(pairs), sum(p[1] for p in pairs) / len(pairs)
    drawn = re.search(rf'<circle class="{mark}[^"]*" cx="([\d.]+)" cy="([\d.]+)"', svg)
    if not drawn:
        raise SystemExit(f"the picture has no mark of class {mark!r}.")
    return float(drawn[1]), float(drawn[2])


def callouts(svg: str) -> list[tuple[tuple[float, float], tuple[float, float], str]]:
    """Number's place, the point it names, and its sentence."""
    slope = place(svg, "DRAM")
    roof = place(svg, "matrix fp16")
    ridge = place(svg, "ridge")
    star = middle(svg, "m")
    dot = middle(svg, "p k-memory")
    high = middle(svg, "p k-compute")
    return [
        ((slope[0] + 110, slope[1] + 10), (slope[0] + 55, slope[1] - 34),
         "The slope is the bandwidth of the memory: on it an op waits for bytes."),
        ((roof[0] - 10, roof[1] - 19), (roof[0] - 2, roof[1] + 4),
         "The roof is the peak of the matrix units in the format of the run."),
        ((ridge[0] + 26, ridge[1] - 60), (ridge[0] + 1, ridge[1] - 60),
         "At the ridge point the two meet: 153 FLOP per byte on this device."),
        ((dot[0] + 60, dot[1] + 16), dot,
         "A dot is an op, or several equal ones. Blue ones are memory-bound ..."),
        ((high[0] + 40, high[1] + 42), high,
         "... and orange ones compute-bound. The shape says what kind of op it is."),
        ((star[0] - 70, star[1] - 40), star,
         "The star is the whole model: memory-bound at batch 1. Larger batches move it right."),
    ]  # fmt: skip


def draw(svg: str) -> str:
    """The picture with its callouts and the sentences below it."""
    notes = callouts(svg)
    size = re.search(r'viewBox="0 0 (\d+) (\d+)" width="\d+" height="\d+"', svg)
    if size is None:
        raise SystemExit("the picture states no size.")
    width, height = int(size[1]), int(size[2])
    taller = height + int(LINE * len(notes) + MARGIN)
    out = svg.replace(size[0], f'viewBox="0 0 {width} {taller}" width="{width}" height="{taller}"')
    out = out.replace(
        f'width="{width}" height="{height}"/>', f'width="{width}" height="{taller}"/>'
    )
    out = out.replace("</style>", f"{STYLE}</style>", 1)
    drawn = []
    for number, (at, target, sentence) in enumerate(notes, 1):
        below = height + LINE * number
        drawn.append(
            f'<g class="note"><line x1="{at[0]:.0f}" y1="{at[1]:.0f}" x2="{target[0]:.0f}" '
            f'y2="{target[1]:.0f}"/>{_number(*at, number)}{_number(24, below - 4, number)}</g>'
            f'<g class="said"><text x="42" y="{below:.0f}" class="v">{sentence}</text></g>'
        )
    end = out.rindex("</svg>")
    return f"{out[:end]}<g>{''.join(drawn)}</g>{out[end:]}"


def _number(x: float, y: float, number: int) -> str:
    return (
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="8.5"/>'
        f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle">{number}</text>'
    )


def main() -> None:
    svg = (IMAGES / "resnet50-a100.svg").read_text(encoding="utf-8")
    (IMAGES / "first-report.svg").write_text(draw(svg), encoding="utf-8")


if __name__ == "__main__":
    main()
