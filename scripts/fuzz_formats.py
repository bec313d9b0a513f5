"""Feeds damaged files to the readers: ``python scripts/fuzz_formats.py 600 model.mlir dump.hlo``.

Whatever a file holds, reading gives a workload that can be analyzed or one `GambrelError` of one
line, soon and in bounded memory. Seeds are the given files (of ONNX their structures, without
weights) and, with ``--onnx-cases``, the node cases of onnx's backend tests. An execution damages
one of them: bytes; of ONNX also fields of its messages; of text also words, numbers and lines. The
file being read is ``last.*`` beside the results, so that a crash of the interpreter leaves it;
what fails is kept. A damaged file keeps its ending, and so goes to the reader of its format.
Bytecode of MLIR is read in a fork of this process, where the reader would start a new one.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import resource
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gambrel
from fuzzing import SECONDS, Damaged, bent, bounded, feed, refused
from gambrel.errors import GambrelError

INTEGERS = (0, 1, -1, 2, 3, 7, 64, 2**31, -(2**31), 2**62, -(2**63), 2**63 - 1, 1000)
TEXTS = ("", "x", "N", "N/0", "2**9**9", "../x", "batch", "a b", "\u00e9", "-1", "same")


@dataclass(frozen=True)
class Seed:
    """A file that is whole.

    Attributes:
        suffix: The ending of its name.
        data: What it holds.
    """

    suffix: str
    data: bytes


def seeds(paths: list[Path], onnx_cases: bool) -> list[Seed]:
    """The files, and the cases of onnx's own tests."""
    found = [_seed(path) for path in paths]
    if not onnx_cases:
        return found
    from onnx.backend.test.loader import load_model_tests

    models = [case.model for case in load_model_tests(kind="node")]
    cases = [Seed(".onnx", model.SerializeToString()) for model in models]
    return [*found * max(len(cases) // max(2 * len(found), 1), 1), *cases]


def _seed(path: Path) -> Seed:
    data = path.read_bytes()
    if path.suffix == ".onnx":
        from gambrel.capture.onnx.wire import without_data

        data = without_data(data)
    return Seed(path.suffix, data)


def damaged(seed: Seed, pool: list[Seed], rng: random.Random) -> bytes:
    """One of the ways to damage a file."""
    other = rng.choice(pool).data
    way = STRUCTURED.get(seed.suffix)
    if way is None and _is_text(seed.data):
        way = reworded
    if way is None or rng.random() < 0.3:
        return bent(seed.data, other, rng)
    return way(seed.data, rng)


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


WORD = re.compile(r"[A-Za-z_][\w.\-]*|\d+|[^\w\s]")


def reworded(data: bytes, rng: random.Random) -> bytes:
    """A few words, numbers or lines of a text changed, moved or left out."""
    lines = data.decode("utf-8").splitlines()
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(lines))
        kind = rng.random()
        if kind < 0.1:
            del lines[at]
        elif kind < 0.2:
            lines.insert(at, rng.choice(lines))
        else:
            words = list(WORD.finditer(lines[at]))
            if not words:
                continue
            word = rng.choice(words)
            new = str(rng.choice(INTEGERS)) if word[0].isdigit() else rng.choice(TEXTS)
            if rng.random() < 0.5:
                known = WORD.findall(rng.choice(lines))
                new = rng.choice(known) if known else new
            lines[at] = lines[at][: word.start()] + new + lines[at][word.end() :]
        if not lines:
            return b""
    return "\n".join(lines).encode()


def changed(data: bytes, rng: random.Random) -> bytes:
    """A few fields of ONNX's messages set to something else."""
    import onnx

    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        message: Any = model
        for _ in range(rng.randrange(1, 9)):
            fields = [f for f, _ in message.ListFields()]
            if not fields:
                break
            field = rng.choice(fields)
            value = getattr(message, field.name)
            if field.message_type is None:
                _set(message, field, value, rng)
                break
            if not hasattr(value, "add"):
                message = value
                continue
            kind = rng.random()
            if kind < 0.1 and len(value):
                del value[rng.randrange(len(value))]
                break
            if kind < 0.2 and len(value):
                value.add().CopyFrom(rng.choice(list(value)))
                break
            message = rng.choice(list(value))
    return model.SerializeToString()


def _set(message: Any, field: Any, value: Any, rng: random.Random) -> None:
    try:
        listed = not isinstance(value, (str, bytes, int, float))
        sample = value[0] if listed and len(value) else value
        new: Any = rng.choice(INTEGERS)
        if isinstance(sample, (str, bytes)):
            new = rng.choice(TEXTS)
            if listed and len(value) and rng.random() < 0.5:
                new = rng.choice(list(value))
            new = new.encode() if isinstance(sample, bytes) and isinstance(new, str) else new
        elif isinstance(sample, float):
            new = rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), 0.5))
        if not listed:
            setattr(message, field.name, new)
        elif rng.random() < 0.2:
            value.append(new)
        elif len(value):
            value[rng.randrange(len(value))] = new
    except (ValueError, TypeError):
        return


def reconfigured(data: bytes, rng: random.Random) -> bytes:
    """A zip whose descriptions in JSON are changed word by word, and packed again."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as whole, zipfile.ZipFile(made, "w") as packed:
        for name in whole.namelist():
            member = whole.read(name)
            if name.endswith(".json"):
                lines = re.sub(rb"([,{\[])", rb"\1\n", member)
                member = reworded(lines, rng)
            packed.writestr(name, member)
    return made.getvalue()


#: Ending → how the structure of such a file is damaged.
STRUCTURED: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".onnx": changed,
    ".keras": reconfigured,
    ".pt2": reconfigured,
}


def execute(path: Path) -> str:
    """Reads one file and analyzes it; says how it ended."""
    try:
        analysis = gambrel.analyze(path, "h100")
        assert analysis.total.flops >= 0
    except GambrelError as error:
        return refused(error)
    return "read"


def fork_for_bytecode() -> None:
    """Reads bytecode in forks of a process that has loaded MLIR, instead of in new processes."""
    from importlib import import_module

    from gambrel.capture.xla import bytecode, reader
    from gambrel.errors import FileFormatError

    import_module("jaxlib.mlir.dialects.stablehlo")

    def forked(data: bytes) -> str:
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))  # it spins at some files
            try:
                module = bytecode._module(data)
                text = module.operation.get_asm(enable_debug_info=True, large_elements_limit=256)
                with os.fdopen(theirs, "wb") as file:
                    file.write(text.encode())
            except BaseException:
                os._exit(1)
            os._exit(0)
        os.close(theirs)
        with os.fdopen(ours, "rb") as file:
            text = file.read()
        if os.waitpid(child, 0)[1]:
            raise FileFormatError("this is no whole bytecode of StableHLO (it is damaged).")
        return text.decode("utf-8", "replace")

    reader.text_of = forked


def main() -> None:
    """Runs for the seconds that were asked for and prints what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seconds", type=int)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--onnx-cases", action="store_true", help="also onnx's own node cases")
    parser.add_argument("--keep", type=Path, default=Path("fuzz_formats"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.keep.mkdir(exist_ok=True)
    bounded()
    rng, pool = random.Random(args.seed), seeds(args.models, args.onnx_cases)
    if any(seed.suffix == ".mlirbc" for seed in pool):
        fork_for_bytecode()

    def drawn() -> Damaged:
        seed = rng.choice(pool)
        return Damaged(data=damaged(seed, pool, rng), execute=execute, suffix=seed.suffix)

    feed(drawn, args.seconds, args.keep)


if __name__ == "__main__":
    main()
