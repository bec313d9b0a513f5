"""Build the documentation site into ``build/docs``: ``python scripts/build_docs.py``.

The pages of ``docs/`` are copied, the reference is written (command line, Python, glossary,
devices, models, runtimes), results of benchmarks and CONTRIBUTING join them, and Zensical builds it
all. A broken link or anchor fails the build. Needs the extra ``docs``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from docs_reference import written

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "build" / "docs-source"
#: Files outside of docs/ that pages link to → where they stand in the site.
OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "README.md": "readme.md"}
#: Where the first page shows the table of errors.
TABLE = "<!-- the table of accuracy.md -->"
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")


def accuracy() -> str:
    """The rows of the table of errors, as the benchmark wrote them."""
    lines = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


def place(target: Path) -> Path | None:
    """Where a file of the project stands in the site; None for one that it does not have."""
    path = target.relative_to(ROOT)
    if path.as_posix() in OUTSIDE:
        return Path(OUTSIDE[path.as_posix()])
    if path.parts[0] == "docs":
        return Path(*path.parts[1:])
    if path.parts[:2] == ("benchmarks", "results"):
        return Path("results", *path.parts[2:])
    return None


def moved(text: str, page: Path) -> str:
    """A page with its links as they stand in the site; links to code become names of files."""
    here = place(page)
    assert here is not None

    def link(match: re.Match[str]) -> str:
        start, target, end = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match.group()
        path = (page.parent / target).resolve()
        there = place(path)
        if there is None:
            return f"] (`{path.relative_to(ROOT).as_posix()}`)"
        up = Path(*[".."] * (len(here.parts) - 1))
        return f"{start}{(up / there).as_posix()}{end}"

    return LINK.sub(link, text)


def stage() -> None:
    """Gathers the sources of the site."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE)
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/results/*.md")]
    for page in (*pages, *(ROOT / name for name in OUTSIDE)):
        there = SOURCE / (place(page) or page.name)
        there.parent.mkdir(exist_ok=True, parents=True)
        text = moved(page.read_text(encoding="utf-8"), page)
        there.write_text(text.replace(TABLE, accuracy()), encoding="utf-8")
    for name, text in written().items():
        there = SOURCE / "reference" / name
        there.parent.mkdir(exist_ok=True, parents=True)
        there.write_text(text, encoding="utf-8")


def main() -> None:
    """Stages and builds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help="serve the site and watch the pages")
    words = "serve" if parser.parse_args().serve else "build"
    stage()
    program = Path(sys.executable).with_name("zensical")
    command = [str(program), words, *(["--strict", "--clean"] if words == "build" else [])]
    sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
