"""Builds the embedded zoo: captures each architecture at several sizes and writes one file each.

    python scripts/build_zoo.py                 # everything
    python scripts/build_zoo.py resnet50 lstm   # these entries, and the index
    python scripts/build_zoo.py --check gpt2    # compare with the stored files, write nothing

Needs torch, torchvision, transformers, timm, diffusers and ultralytics.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parent))

from gambrel.analysis.evaluate import Evaluator
from gambrel.capture.zoo import FOLDER, INDEX, file_name
from gambrel.errors import WorkloadError
from gambrel.ops import Conventions
from gambrel.ops.base import Engine
from gambrel.workload import Workload, WorkloadSummary
from gambrel.workload.binding import bind
from gambrel.workload.formats import in_format
from gambrel.workload.lift import lift
from gambrel.workload.serialize import dumps, load_workload, save_workload
from zoo import all_entries
from zoo.docs import page
from zoo.entry import Entry, Subject

PAGE = Path(__file__).parents[1] / "docs" / "models.md"


def main() -> int:
    """Builds or checks the entries named on the command line, all of them when none is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="entries; all when none is given")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    entries = all_entries()
    unknown = [n for n in options.names if n not in entries]
    if unknown:
        parser.error(f"no such entry: {', '.join(unknown)}; have {', '.join(entries)}")
    chosen = [entries[n] for n in options.names] or list(entries.values())
    parameters = _known_parameters()
    failed = [e.name for e in chosen if not _process(e, parameters, check=options.check)]
    if not options.check:
        write_index(entries.values(), parameters)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def _known_parameters() -> dict[str, int]:
    path = FOLDER / INDEX
    if not path.is_file():
        return {}
    rows = msgspec.json.decode(path.read_bytes(), type=list[WorkloadSummary])
    return {r.name: r.parameters for r in rows}


def _process(entry: Entry, parameters: dict[str, int], *, check: bool) -> bool:
    start = time.perf_counter()
    try:
        workload, count = build(entry)
    except Exception as error:  # one broken entry must not stop the others
        print(f"{entry.name:24} FAILED {type(error).__name__}: {error}", flush=True)
        return False
    path = FOLDER / file_name(entry.name)
    good = not unmodelled(workload)
    if check:
        same = path.is_file() and load_workload(path) == workload
        print(f"{entry.name:24} {'same' if same else 'DIFFERS'}", flush=True)
        return good and same
    FOLDER.mkdir(exist_ok=True)
    save_workload(workload, path)
    parameters[entry.name] = count
    print(
        f"{entry.name:24} {matrix_flops(workload) / 1e9:14,.3f} GFLOP {count / 1e6:12,.3f} M "
        f"{len(workload.ops):6} ops {len(dumps(workload)) / 1e3:7.1f} kB "
        f"{time.perf_counter() - start:6.1f} s {' '.join(unmodelled(workload))}",
        flush=True,
    )
    return good


def build(entry: Entry) -> tuple[Workload, int]:
    """Captures an entry at all its points and lifts the captures to one workload."""
    subject = entry.build()
    captures = [(point, subject.capture(point)) for point in entry.points]
    try:
        lifted = lift(captures, entry.symbols, entry.degrees)
    except WorkloadError as error:
        if "structure changes" not in str(error):
            raise
        lifted = _lift_above_one(entry, subject, captures, error)
    return replace(
        lifted,
        name=entry.name,
        origin=entry.origin,
        chosen_dtype=False,
        assumptions=(*lifted.assumptions, *entry.assumptions),
    ), subject.parameters


def _lift_above_one(
    entry: Entry,
    subject: Subject,
    captures: list[tuple[dict[str, int], Workload]],
    error: WorkloadError,
) -> Workload:
    """The workload of batches above 1, for batch 1 as well if that only saves copies and additions.

    At batch 1 many transposed tensors are contiguous by coincidence: PyTorch skips the copy that
    any other batch needs, and adds the bias of a linear layer within its GEMM.
    """
    ones = [(p, w) for p, w in captures if p["batch"] == 1]
    others = [(p, w) for p, w in captures if p["batch"] != 1]
    fours = [{**p, "batch": 4} for p, _ in ones]
    if not ones:
        raise error
    above = tuple(
        replace(s, minimum=2, default=2) if s.name == "batch" else s for s in entry.symbols
    )
    lifted = lift([*others, *((p, subject.capture(p)) for p in fours)], above, entry.degrees)
    lifted = replace(lifted, symbols=entry.symbols)
    for point, workload in ones:
        if _without_copies(bind(lifted, point)) != _without_copies(workload):
            raise error
    # Figures of fp32, without the casts of 16 bits.
    whole, ones = in_format(lifted, lifted.dtype), [(p, in_format(w, w.dtype)) for p, w in ones]
    skipped = max(_copies(bind(whole, p)) - _copies(w) for p, w in ones)
    joined = max(len(whole.ops) - len(w.ops) for _, w in ones) - skipped
    more = max(traffic_bytes(bind(whole, p)) / traffic_bytes(w) - 1 for p, w in ones)
    if not skipped and not more:
        return lifted
    additions = f" and {joined} addition{'s' * (joined > 1)} of a bias" if joined else ""
    sentence = (
        f"At batch 1, PyTorch skips {skipped} of the {_copies(whole)} copies counted here"
        f"{additions} (at most {more:.1%} of the traffic), because the tensors happen to be "
        "contiguous."
    )
    return replace(lifted, assumptions=(*lifted.assumptions, sentence))


def _copies(workload: Workload) -> int:
    return sum(op.kind == "copy" for op in workload.ops)


def _without_copies(workload: Workload) -> list[tuple[object, ...]]:
    """All other ops, a bias within a GEMM as an addition behind it."""
    rows: list[tuple[object, ...]] = []
    for op in workload.ops:
        if op.kind == "copy":
            continue
        if op.name == "aten.addmm" and op.attrs.get("bias"):
            rows.append((op.kind, "aten.mm", op.module, op.sizes, {}))
            elements = op.sizes["b"] * op.sizes["m"] * op.sizes["n"]
            added = {"elements": elements}, {"function": "add"}
            rows.append(("elementwise", "aten.add", op.module, *added))
        else:
            rows.append((op.kind, op.name, op.module, op.sizes, op.attrs))
    return rows


def matrix_flops(workload: Workload) -> int:
    """Multiply-accumulate work at the default sizes, causal attention counted half."""
    values = workload.resolve_symbols({})
    total = 0
    for op, _, cost in Evaluator(workload, values, {}, Conventions()).costs():
        if cost is not None:
            work = sum(n for (engine, _), n in cost.work.items() if engine is Engine.MATRIX)
            total += op.repeat * work
    return total


def traffic_bytes(workload: Workload) -> int:
    """Bytes that all ops read and write, each by itself, at the default sizes."""
    values = workload.resolve_symbols({})
    costs = [c for _, _, c in Evaluator(workload, values, {}, Conventions()).costs()]
    return sum((c.read_bytes or 0) + (c.write_bytes or 0) for c in costs if c is not None)


def unmodelled(workload: Workload) -> list[str]:
    """Kinds of ops that no formula knows."""
    values = workload.resolve_symbols({})
    costs = Evaluator(workload, values, {}, Conventions()).costs()
    return sorted({op.kind for op, _, cost in costs if cost is None})


def write_index(entries: Iterable[Entry], parameters: dict[str, int]) -> None:
    """Writes the index of all entries that have a file, and the page that lists them."""
    rows = [
        summary(e, parameters[e.name]) for e in entries if (FOLDER / file_name(e.name)).is_file()
    ]
    text = msgspec.json.format(msgspec.json.encode(rows), indent=1)
    (FOLDER / INDEX).write_bytes(text + b"\n")
    PAGE.write_text(page(rows), encoding="utf-8")


def summary(entry: Entry, parameters: int) -> WorkloadSummary:
    """What the index says of an entry."""
    workload = load_workload(FOLDER / file_name(entry.name))
    return WorkloadSummary(
        name=entry.name,
        aliases=entry.aliases,
        family=entry.family,
        about=entry.about,
        parameters=parameters,
        flops=matrix_flops(workload),
        symbols=workload.symbols,
        origin=workload.origin,
    )


if __name__ == "__main__":
    sys.exit(main())
