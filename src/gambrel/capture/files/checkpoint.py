"""From a checkpoint to a workload: by what it says of its architecture, never by running it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gambrel.analysis.precision import cast_map
from gambrel.capture import zoo
from gambrel.capture.files.checkpoint_file import read_checkpoint
from gambrel.capture.files.fingerprint import Fingerprint, Shapes, fingerprint, match
from gambrel.capture.files.identify import FileKind, identify
from gambrel.capture.files.safetensors import read_safetensors
from gambrel.errors import CaptureError, UnknownNameError
from gambrel.workload import Role, Workload, WorkloadSummary
from gambrel.workload.formats import in_format

#: A zoo entry whose parameters differ by more than this share is not even loaded.
_NEAR: Final = 0.2

#: What to do when a file's architecture is not known.
WAYS_OUT: Final = (
    "Give the architecture's name ('gambrel models list'), your code as file.py:function, a .pt2 "
    "export (torch.export.save), or --trust if you trust the file to run code."
)


_SCRIPT: Final = "TorchScript, which cannot be read without running it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The workload of a checkpoint.

    Attributes:
        workload: Of the architecture.
        notes: How it was found and what differs, one sentence each.
    """

    workload: Workload
    notes: tuple[str, ...] = ()


def match_checkpoint(
    path: str | Path,
    run: Callable[[Path], Workload] | None = None,
) -> Matched:
    """Finds the architecture of a checkpoint or of a safetensors file.

    A file in ultralytics' layout names its definition; others are compared, weight by weight, with
    the models of the zoo.

    Args:
        path: The file.
        run: Loads and captures a pickled module, which runs its code; only with the user's explicit
            word that it may, and called only when the file is not recognised without.

    Raises:
        FileFormatError: It is damaged or hostile.
        CaptureError: Its architecture is not known; the message says the ways out.
    """
    path = Path(path)
    what = _SCRIPT
    if identify(path) is not FileKind.TORCHSCRIPT:
        found = read_fingerprint(path)
        known = _by_definition(path, found) or _by_weights(path, found)
        if known is not None:
            return _as_stored(known, found)
        what = _what(found)
    if run is not None:
        return Matched(workload=run(path), notes=(_ran(path),))
    raise CaptureError(f"{path}: {what}. {_beside(path)}{WAYS_OUT}")


def read_fingerprint(path: Path) -> Fingerprint:
    """What a checkpoint or a safetensors file says of its architecture; nothing is run.

    Raises:
        FileFormatError: It is damaged, hostile or neither of the two.
    """
    if identify(path) is FileKind.SAFETENSORS:
        return Fingerprint(tensors=read_safetensors(path))
    return fingerprint(read_checkpoint(path))


def zoo_candidates(
    elements: int, entries: Sequence[WorkloadSummary] | None = None
) -> Iterator[tuple[str, Callable[[], Shapes]]]:
    """Zoo entries of about that many weights, nearest first, each loaded only when asked for."""
    known = zoo.list_models() if entries is None else entries
    near = [e for e in known if abs(e.parameters - elements) <= _NEAR * max(elements, 1)]
    for entry in sorted(near, key=lambda e: abs(e.parameters - elements)):
        yield entry.name, lambda name=entry.name: weight_shapes(zoo.load(name))  # type: ignore[misc]


def weight_shapes(workload: Workload) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a workload's weights; of several views of one, the largest."""
    found: dict[str, tuple[int, ...]] = {}
    for tensor in workload.tensors:
        if tensor.role is Role.WEIGHT and tensor.name:
            shape = tuple(d for d in tensor.shape if isinstance(d, int))
            if prod(shape) > prod(found.get(tensor.name, (0,))):
                found[tensor.name] = shape
    return found


def _as_stored(known: Matched, found: Fingerprint) -> Matched:
    """In the format of the file, as the same model would be live, not in that of the zoo."""
    stored = found.dtype
    if not stored:
        return known
    workload = in_format(known.workload, stored)
    changes = cast_map(workload.dtype, stored)
    tensors = tuple(replace(t, dtype=changes.get(t.dtype, t.dtype)) for t in workload.tensors)
    cast = replace(workload, dtype=stored, chosen_dtype=True, tensors=tensors)
    note = (
        f"Its weights are stored in {stored}, in which it runs here; --precision chooses another."
    )
    return Matched(workload=cast, notes=(*known.notes, note))


def _by_definition(path: Path, found: Fingerprint) -> Matched | None:
    name = found.yaml_name
    if not name:
        return None
    try:
        entry, _ = zoo.find(name)
    except UnknownNameError:
        return None
    notes = [f"{path.name} holds {entry.name} (by its own definition); the file was not run."]
    if found.classes is not None and found.classes != 80:
        notes.append(
            f"It was trained for {found.classes} classes; the figures are those of the original "
            "with 80, which differ in the last convolutions only."
        )
    return Matched(workload=zoo.load(entry.name), notes=tuple(notes))


def _by_weights(path: Path, found: Fingerprint) -> Matched | None:
    weights = found.weights
    elements = sum(prod(s) for s in weights.values())
    known = match(found, zoo_candidates(elements))
    if known is None:
        return None
    notes = [f"{path.name} has the weights of {known.name}; the file was not run."]
    if known.differs:
        notes.append(
            f"The figures are those of the original {known.name}; here {known.differs[0]}"
            + (f", and {len(known.differs) - 1} more." if len(known.differs) > 1 else ".")
        )
    return Matched(workload=zoo.load(known.name), notes=tuple(notes))


def _what(found: Fingerprint) -> str:
    """What the file is, as far as it says."""
    count = len(found.weights)
    weights = f"{count} weights" if count else "no weights that could be read"
    if found.yaml_name:
        return f"a pickled {found.yaml_name}, whose definition is not built in"
    if found.cls:
        return f"a pickled {found.cls} ({weights}), which matches no built-in model"
    return f"a checkpoint with {weights} and no graph, which match no built-in model"


def _beside(path: Path) -> str:
    """Points to the configuration that Hugging Face's layout keeps beside the weights."""
    config = path.parent / "config.json"
    return f"{config} beside it describes a model: give that. " if config.is_file() else ""


def _ran(path: Path) -> str:
    return f"{path.name} was loaded with its own code, as --trust allows."
