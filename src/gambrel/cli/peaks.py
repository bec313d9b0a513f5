"""``gambrel peaks``: the ceilings of this machine."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gambrel.cli.output import json_text, progress, write_text
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.measure.records import HardwarePeaks

EXAMPLES = (
    "Examples: gambrel peaks --device cpu\n\n"
    "gambrel peaks --quick --compare epyc-9755\n\n"
    "gambrel peaks --html peaks.html\n\n"
    "gambrel peaks --device cuda --save lab.toml\n\n"
    "Then: gambrel analyze resnet50 --hardware this"
)


def peaks(
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    dtype: Annotated[
        str, typer.Option("--precision", "-p", help="Format of the compute roof shown first.")
    ] = "fp32",
    steps: Annotated[int, typer.Option(help="Repetitions of each measurement.", min=1)] = 20,
    warmup: Annotated[int, typer.Option(help="Repetitions thrown away before.", min=0)] = 5,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few short rounds: rougher, in seconds.")
    ] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Measure again even if there is a stored result.")
    ] = False,
    compare: Annotated[
        str | None, typer.Option(help="Set the figures beside those of this device.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write a device file (.toml).", dir_okay=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the measured roofs.", dir_okay=False)
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Measure the ceilings of this machine: FLOP/s per precision, bytes/s per memory level."""
    from gambrel.device.resolve import resolve_hardware
    from gambrel.dtypes import parse_dtype
    from gambrel.measure.peaks import measure_peaks
    from gambrel.measure.peaks import quick as quickly
    from gambrel.report.registry import replace_file

    _check(save, html)
    other = resolve_hardware(compare)[0] if compare else None
    shown = not json_ and sys.stderr.isatty()
    effort = quickly(device) if quick else {"steps": steps, "warmup": warmup}
    found = measure_peaks(
        device,
        steps=effort["steps"],
        warmup=effort["warmup"],
        rounds=effort.get("rounds"),
        dtype=dtype,
        refresh=refresh,
        progress=progress if shown else None,
    )
    if shown:
        print("\r\033[K", end="", file=sys.stderr)
    if save is not None:
        _save(found, save)
    from gambrel.measure import text

    record = found.to_device()
    rows = text.compare(record, other) if other else ()
    if html is not None:
        made = text.page(found.survey, record, parse_dtype(dtype), rows, other.id if other else "")
        replace_file(html, made.encode())
        print(f"wrote {html}", file=sys.stderr)
    if json_:
        write_text(json_text(_plain(found) | ({"comparison": rows} if other else {})))
        return
    write_text(f"{found!r}\n\n{text.render(found.survey)}")
    if other is not None:
        write_text(f"\n{text.render_comparison(rows, other.id)}")


def _check(save: Path | None, html: Path | None) -> None:
    """Finds out before the measurement whether its results can be written."""
    from gambrel.report.registry import check_target

    if save is not None and save.suffix != ".toml":
        raise InputError(f"{save}: a device file ends in .toml.")
    for target in filter(None, (save, html)):
        check_target(target)
        if target.exists() and not target.is_file():
            continue  # a device or a pipe
        try:
            with tempfile.NamedTemporaryFile(dir=target.resolve().parent, prefix=".gambrel-"):
                pass
        except OSError as error:
            raise InputError(f"cannot write {target}: {error.strerror or error}.") from None


def _save(found: HardwarePeaks, path: Path) -> None:
    import msgspec

    from gambrel.measure.convert import to_toml
    from gambrel.report.registry import replace_file

    device = msgspec.structs.replace(found.to_device(), id=path.stem, aliases=())
    replace_file(path, to_toml(device).encode())
    print(f"wrote {path}", file=sys.stderr)


def _plain(found: HardwarePeaks) -> dict[str, object]:
    compact = {f: getattr(found, f) for f in found.__struct_fields__ if f != "survey"}
    return {
        "schema_version": found.survey.schema_version,
        "units": {"peak_flops": "FLOP/s", "peak_bandwidth": "B/s", "ridge_point": "FLOP/byte"},
        **compact,
        "survey": found.survey,
        "device_record": found.to_device(),
    }
