"""Builds the static site: the explorer with Python in the browser, and stored answers.

    python scripts/build_site.py                              # into site/
    python scripts/build_site.py -o out --models resnet50 --devices a100-sxm4-80gb
    python scripts/build_site.py --offline                    # loads nothing from elsewhere

Fetches the runtime of Pyodide with npm and the wheels with pip. numpy belongs to Pyodide's
distribution and to neither registry: answers that need it load it from ``--packages``.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

import gambrel
from gambrel.explorer.controls import names
from gambrel.explorer.desk import Desk
from gambrel.explorer.page import page

ROOT = Path(__file__).resolve().parent.parent
#: Of Pyodide; https://pyodide.org/en/stable/project/changelog.html
VERSION = "314.0.7"
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
LOCK = "pyodide-lock.json"
PACKAGES = f"https://cdn.jsdelivr.net/pyodide/v{VERSION}/full/"
#: Devices with stored answers: what most people ask about.
DEVICES = ("a100-sxm4-80gb", "h100-sxm5-80gb", "rtx-4090", "l4", "jetson-agx-orin-64gb")
FIRST = {"verb": "analyze", "given": {"model": "resnet50", "hardware": "a100-sxm4-80gb"}}
#: What a host must send with the worker: WebAssembly is allowed there and nowhere else.
HEADERS = (
    "/worker.js\n  Content-Security-Policy: default-src 'none'; "
    "script-src 'self' 'wasm-unsafe-eval'; connect-src 'self' {packages}\n"
)


def main() -> None:
    given = arguments()
    target: Path = given.output
    if target.exists():
        shutil.rmtree(target)
    (target / "py").mkdir(parents=True)
    runtime(target / "py")
    wheels = [*own_wheel(target / "py"), *others(target / "py")]
    stored = {"models": answers(target / "answers", given.models, given.devices)}
    stored["devices"] = list(given.devices)
    packages = "" if given.offline else given.packages
    engine = {"kind": "browser", "wheels": wheels, "packages": packages, "stored": stored}
    host = packages and packages[: packages.index("/", packages.index("//") + 2)]
    policy = "connect-src 'self'; worker-src 'self'; "
    first = Desk(Path()).answer({**FIRST, "brief": True})
    (target / "index.html").write_text(page(first, FIRST, engine, policy), encoding="utf-8")
    scripts(target)
    (target / "_headers").write_text(HEADERS.format(packages=host), encoding="utf-8")
    size = sum(f.stat().st_size for f in target.rglob("*") if f.is_file())
    print(f"wrote {target}: {size / 1e6:.1f} MB, {len(stored['models'])} models")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "site")
    known = [name for name, _ in names()["models"]]
    parser.add_argument("--models", nargs="*", default=known, help="with stored answers")
    parser.add_argument("--devices", nargs="*", default=DEVICES, help="with stored answers")
    parser.add_argument("--packages", default=PACKAGES, help="where Pyodide's packages are")
    parser.add_argument("--offline", action="store_true", help="load nothing from elsewhere")
    return parser.parse_args()


def runtime(folder: Path) -> None:
    """Python itself, from npm."""
    with tempfile.TemporaryDirectory() as made:
        run(["npm", "pack", "--silent", f"pyodide@{VERSION}"], made)
        (archive,) = Path(made).glob("*.tgz")
        with tarfile.open(archive) as packed:
            for name in (*RUNTIME, LOCK):
                member = packed.extractfile(f"package/{name}")
                assert member is not None, name
                (folder / name).write_bytes(member.read())


def own_wheel(folder: Path) -> list[str]:
    """The wheel of this working tree."""
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)])
    return [path.name for path in folder.glob("gambrel-*.whl")]


def others(folder: Path) -> list[str]:
    """What an analysis needs besides: msgspec, which is compiled, and platformdirs."""
    lock = json.loads((folder / LOCK).read_text("utf-8"))["info"]
    platform = f"pyemscripten_{lock['abi_version']}_wasm32"
    version = ".".join(lock["python"].split(".")[:2])
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    before = {path.name for path in folder.glob("*.whl")}
    place = ["--platform", platform, "--python-version", version, "-d", str(folder)]
    run([*words, *place, "msgspec", "platformdirs"])
    return sorted({path.name for path in folder.glob("*.whl")} - before)


def answers(folder: Path, models: Iterable[str], devices: Sequence[str]) -> list[str]:
    """Stores the answers that are shown before Python has loaded; returns the models with all."""
    desk, complete = Desk(Path()), []
    for model in models:
        made = {
            d: desk.answer(
                {"verb": "analyze", "given": {"model": model, "hardware": d}, "brief": True}
            )
            for d in devices
        }
        if any("error" in answer for answer in made.values()):
            print(f"{model}: no stored answer", file=sys.stderr)
            continue
        (folder / model).mkdir(parents=True)
        for device, answer in made.items():
            data = gzip.compress(msgspec.json.encode(answer), 9, mtime=0)
            (folder / model / f"{device}.json.gz").write_bytes(data)
        complete.append(model)
    return complete


def scripts(target: Path) -> None:
    """The worker, and what keeps the site for when there is no network."""
    loaded = [f"py/{path.name}" for path in sorted((target / "py").iterdir())]
    page_hash = hashlib.sha256((target / "index.html").read_bytes()).hexdigest()[:12]
    version = f"{gambrel.__version__}-{page_hash}"
    for path in sorted((ROOT / "web" / "site").glob("*.js")):
        text = path.read_text("utf-8").replace("VERSION", version)
        text = text.replace('["FILES"]', json.dumps(["./", "worker.js", *loaded]))
        (target / path.name).write_text(text, encoding="utf-8")


def run(words: Sequence[str], folder: str | None = None) -> None:
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
