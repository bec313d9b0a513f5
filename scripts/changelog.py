"""Gathers the fragments of changelog.d into CHANGELOG.md under a new version.

python scripts/changelog.py 0.2.0 2026-12-01
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("added", "changed", "fixed", "removed")


def gather(folder: Path) -> dict[str, list[str]]:
    """Fragments by kind, in order of their names; an unknown kind stops the release."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.glob("*.md")):
        kind = path.stem.rpartition(".")[2]
        if kind not in KINDS:
            raise SystemExit(f"{path.name}: the kind must be one of {', '.join(KINDS)}")
        found[kind].append(path.read_text(encoding="utf-8").strip())
    return found


def section(version: str, date: str, fragments: dict[str, list[str]]) -> str:
    """The text of one version."""
    lines = [f"## {version} ({date})", ""]
    for kind in KINDS:
        if fragments.get(kind):
            lines += [f"### {kind.capitalize()}", ""]
            lines += [f"- {text}" for text in fragments[kind]] + [""]
    return "\n".join(lines)


def main(version: str, date: str) -> None:
    folder = ROOT / "changelog.d"
    text = section(version, date, gather(folder))
    path = ROOT / "CHANGELOG.md"
    head, _, rest = path.read_text(encoding="utf-8").partition("\n## ")
    path.write_text(f"{head.rstrip()}\n\n{text}" + (f"\n## {rest}" if rest else ""), "utf-8")
    for fragment in folder.glob("*.md"):
        fragment.unlink()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2])
