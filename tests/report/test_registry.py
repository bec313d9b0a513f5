"""Formats by name and suffix; files that are complete or not there; CSV; options."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from gambrel.analysis.result import Analysis
from gambrel.errors import InputError, UnknownNameError
from gambrel.report import (
    FORMATS,
    KINDS,
    Options,
    check_file,
    format_of,
    kind_of,
    load_analysis,
    render,
    terminal_options,
    wants_color,
    write,
)
from gambrel.report.answers import Analyses, Models
from gambrel.report.builders.figures_of import COLUMNS
from tests.report import samples

OF_ONE = kind_of(Analysis).formats
OF_SEVERAL = kind_of(Analyses).formats


@pytest.mark.parametrize("name", OF_ONE)
def test_every_format_renders(name: str) -> None:
    assert render(samples.tiny(), name)


@pytest.mark.parametrize("name", OF_SEVERAL)
def test_formats_of_several(name: str) -> None:
    assert render([samples.tiny(), samples.unknown(), samples.empty()], name)


@pytest.mark.parametrize("name", [n for n in OF_ONE if n not in OF_SEVERAL])
def test_formats_of_one(name: str) -> None:
    with pytest.raises(InputError, match=f"there is no {name} of analyses; write one of .txt"):
        render([samples.tiny(), samples.tiny()], name)


def test_files_are_refused_before_any_work(tmp_path: Path) -> None:
    assert check_file(tmp_path / "a.svg", Analysis) == tmp_path / "a.svg"
    with pytest.raises(InputError, match=r"b.svg: there is no svg of models"):
        check_file(tmp_path / "b.svg", Models)
    with pytest.raises(InputError, match=r"--html .*c.svg: name a .html file"):
        check_file(tmp_path / "c.svg", Analysis, "html")
    with pytest.raises(InputError, match="there is no folder"):
        check_file(tmp_path / "absent" / "a.svg", Analysis)
    with pytest.raises(TypeError, match="dict is no kind of result"):
        check_file(tmp_path / "a.json", dict)


def test_unknown_formats() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown format 'docx'; closest: table, "):
        render(samples.tiny(), "docx")
    with pytest.raises(UnknownNameError, match=r"unknown file suffix '.docx'.*a.docx: write one"):
        format_of("a.docx")
    with pytest.raises(InputError, match="list of analyses is empty"):
        render([], "json")


def test_suffixes() -> None:
    assert format_of("A.HTML").name == "html"
    assert format_of(Path("x/y.md")).name == "markdown"


@pytest.mark.parametrize("suffix", [s for n in OF_ONE for s in FORMATS[n].suffixes])
def test_write(tmp_path: Path, suffix: str) -> None:
    path = write(samples.tiny(), tmp_path / f"report{suffix}")
    assert path.stat().st_size > 900
    assert list(tmp_path.iterdir()) == [path]


def test_write_several_and_by_name(tmp_path: Path) -> None:
    write([samples.tiny(), samples.unknown()], tmp_path / "a.html")
    write(samples.tiny(), tmp_path / "a.gambrel", name="json")
    assert load_analysis(tmp_path / "a.gambrel") == samples.tiny()


def test_write_replaces_and_keeps_links(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    write(samples.tiny(), link)
    assert link.is_symlink()
    assert load_analysis(real) == samples.tiny()


def test_write_to_a_device() -> None:
    write(samples.tiny(), "/dev/null", name="json")
    assert not Path("/dev/null").is_file()


def test_write_refuses(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write .*a.json: there is no folder .*absent"):
        write(samples.tiny(), tmp_path / "absent" / "a.json")
    (tmp_path / "dir.json").mkdir()
    with pytest.raises(InputError, match=r"cannot write .*dir.json: it is a folder"):
        write(samples.tiny(), tmp_path / "dir.json")


def test_interrupted_writing_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def interrupt(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(samples.tiny(), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_is_one_sentence() -> None:
    with pytest.raises(InputError, match="cannot write /dev/full: No space left on device"):
        write(samples.tiny(), "/dev/full", name="json")


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_golden(golden: Callable[[str, str], None]) -> None:
    golden("ops.csv", str(render(samples.tiny(), "csv")))


def test_csv_figures() -> None:
    rows = {row["name"]: row for row in _rows(str(render(samples.tiny(), "csv")))}
    conv, on_chip, lost = (rows[n] for n in ("conv1", "layer2.0.on_chip", "layer2.0.mystery"))
    assert list(conv)[5:] == list(COLUMNS)
    assert (conv["flops"], conv["traffic_bytes"]) == ("236000000", "2000000")
    assert conv["arithmetic_intensity"] == "118.0"
    assert conv["sizes"] == "batch=1;image=224"
    assert on_chip["arithmetic_intensity"] == "inf"
    assert (lost["state"], lost["flops"], lost["roofline_time_s"]) == ("unmodelled", "", "")
    bare = _rows(str(render(samples.unknown(), "csv")))[0]
    assert (bare["bound"], bare["peak_flop_per_s"]) == ("", "")


def test_csv_of_several_and_of_none() -> None:
    batches = [samples.build(batch=b) for b in (1, 8)]
    rows = _rows(str(render(batches, "csv")))
    assert len(rows) == 24
    assert {row["sizes"] for row in rows} == {"batch=1;image=224", "batch=8;image=224"}
    assert (
        str(render(samples.empty(), "csv"))
        == ",".join(("model", "hardware", "precision", "runtime", "sizes", *COLUMNS)) + "\n"
    )


def test_csv_runs_no_formula() -> None:
    names = [row["name"] for row in _rows(str(render(samples.hostile(), "csv")))]
    assert '\'=HYPERLINK("http://x")|pipe' in names


def test_options_refuse() -> None:
    with pytest.raises(InputError, match="top=-1: must be 0"):
        Options(top=-1)
    with pytest.raises(InputError, match="height=3: a roofline needs at least 10 rows"):
        Options(height=3)
    assert Options(width=3).columns == 40


def test_colour_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert wants_color(Terminal(), {})
    assert not wants_color(io.StringIO(), {})
    assert wants_color(io.StringIO(), {"FORCE_COLOR": "1"})
    assert not wants_color(Terminal(), {"NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert not wants_color(Terminal(), {"TERM": "dumb"})
    monkeypatch.setenv("COLUMNS", "123")
    monkeypatch.setenv("LINES", "24")
    found = terminal_options(io.StringIO(), top=3)
    assert (found.width, found.height, found.top, found.color) == (123, 20, 3, False)


HEAVY = ("rich", "numpy", "matplotlib", "plotly", "pandas", "torch")


def _loaded(code: str) -> set[str]:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name for name in done.stdout.split() if name in HEAVY}


def test_reports_load_nothing_heavy() -> None:
    named = [n for kind in KINDS for n in (*kind.drawn.values(), kind.pictures) if n]
    drawers = {name.partition(":")[0] for name in named}
    of_points = {"builders.sweep", "builders.design"}
    builders = {f"builders.{kind.module}" for kind in KINDS} - of_points
    modules = {
        "terminal",
        "markdown",
        "csv_",
        "json_head",
        "page",
        "plot_interactive",
        "plot_static",
    }
    # Sweeps, designs and the pictures of language models are computed as arrays.
    arrays = {"llm_pictures", "serving_chart", "sweep_chart", "design_chart", "builders.pictures"}
    modules |= (drawers | builders) - arrays
    code = "import " + ", ".join(f"gambrel.report.{name}" for name in sorted(modules))
    assert _loaded(code) == set()
    assert _loaded(f"{code}\nimport matplotlib") >= {"matplotlib"}  # the test can fail
