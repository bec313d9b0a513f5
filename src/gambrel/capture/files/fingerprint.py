"""What a checkpoint says of its architecture, and which known model that is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final, TypeAlias

from gambrel.capture.files.modules import find_module, state_dict
from gambrel.capture.files.records import Instance, TensorInfo

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]

#: What wrappers put before every name.
_PREFIXES: Final = ("module.", "_orig_mod.", "model.", "net.", "backbone.")
#: Buffers: kept by some writers and not by others, no part of the architecture's identity.
_BUFFER: Final = re.compile(
    r"(^|\.)(running_mean|running_var|num_batches_tracked|position_ids|inv_freq|"
    r"original_inv_freq|relative_position_index|masked_bias|attn\.bias|total_ops|total_params)$"
)
#: Formats in which models are trained and run, as torch calls them; packed integers are not.
_STORED: Final = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
#: Share of the weights' names and shapes that must agree for a match with another head.
_HEAD_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The identity of an architecture.

    Attributes:
        cls: Name of the pickled model's class; empty for a bare state dict.
        yaml: The definition that a file in ultralytics' layout carries; empty otherwise.
        tensors: Names and forms of all tensors.
    """

    cls: str = ""
    yaml: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, TensorInfo] = field(default_factory=dict)

    @property
    def weights(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights: buffers left out, wrappers' prefixes removed."""
        named = {n: t.shape for n, t in self.tensors.items() if not _BUFFER.search(n)}
        return _without_prefix(named)

    @property
    def dtype(self) -> str:
        """The floating format of most weights, a name of `gambrel.dtypes`; empty without any."""
        count: Counter[str] = Counter()
        for name, tensor in self.tensors.items():
            if not _BUFFER.search(name) and tensor.dtype in _STORED:
                count[_STORED[tensor.dtype]] += tensor.numel
        return max(count, key=lambda d: count[d]) if count else ""

    @property
    def yaml_name(self) -> str:
        """The model that the definition names, e.g. ``"yolov8n"``; empty when it names none."""
        file = self.yaml.get("yaml_file")
        if not isinstance(file, str):
            return ""
        stem = PurePosixPath(PureWindowsPath(file).name).stem
        scale = self.yaml.get("scale")
        family = re.fullmatch(r"(yolo(?:v\d+|\d+))(-\w+)?", stem)
        if family and isinstance(scale, str) and re.fullmatch(r"[a-z]", scale):
            return f"{family[1]}{scale}{family[2] or ''}"
        return stem

    @property
    def classes(self) -> int | None:
        """Number of classes that the definition says, where it does."""
        found = self.yaml.get("nc")
        return found if isinstance(found, int) and not isinstance(found, bool) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMatch:
    """A known model that a checkpoint belongs to.

    Attributes:
        name: Of the known model.
        differs: Weights whose shape is another one (a head with other classes), in words.
    """

    name: str
    differs: tuple[str, ...] = ()


def fingerprint(root: Any) -> Fingerprint:
    """The identity of what `read_checkpoint` found."""
    module = find_module(root)
    return Fingerprint(
        cls=module.cls if module is not None else "",
        yaml=_yaml(module),
        tensors=state_dict(root),
    )


def match(
    found: Fingerprint, candidates: Iterable[tuple[str, Callable[[], Shapes]]]
) -> CheckpointMatch | None:
    """The known model with the same weights.

    Args:
        found: Of the checkpoint.
        candidates: Names of known models and functions that give their weights' names and shapes.

    Returns:
        The model all of whose weights the checkpoint has, in the same sizes, and that has all of
        the checkpoint's; else the one that differs in less than a tenth of them, in size only;
        else None.
    """
    mine = found.weights
    best: CheckpointMatch | None = None
    for name, shapes_of in candidates if mine else ():
        theirs = _without_prefix({n: s for n, s in shapes_of().items() if not _BUFFER.search(n)})
        if not theirs or not _same_names(mine, theirs, found.tensors):
            continue
        # A workload sees a weight as its op does, maybe transposed: elements are compared.
        differs = [n for n, shape in theirs.items() if prod(mine[n]) != prod(shape)]
        if not differs:
            return CheckpointMatch(name=name)
        if best is None and len(differs) <= (1 - _HEAD_SHARE) * len(theirs):
            words = tuple(f"{n} is {_x(mine[n])} instead of {_x(theirs[n])}" for n in differs)
            best = CheckpointMatch(name=name, differs=words)
    return best


def _same_names(mine: Shapes, theirs: Shapes, tensors: Mapping[str, TensorInfo]) -> bool:
    """Whether both name the same weights; one that is tied to another may have either name."""
    extra = set(mine) - set(theirs)
    missing = set(theirs) - set(mine)
    if not extra and not missing:
        return True
    if missing:
        return False
    stripped = _stripped(tensors)
    kept = {t.storage for n, t in stripped.items() if n in theirs and t.storage}
    return all(n in stripped and stripped[n].storage in kept for n in extra)


def _stripped(tensors: Mapping[str, TensorInfo]) -> dict[str, TensorInfo]:
    return _without_prefix(dict(tensors))


def _without_prefix(named: dict[str, Any]) -> dict[str, Any]:
    """Names without a prefix that all of them have."""
    for prefix in _PREFIXES:
        if named and all(n.startswith(prefix) for n in named):
            named = {n.removeprefix(prefix): v for n, v in named.items()}
    return named


def _yaml(module: Instance | None) -> Mapping[str, Any]:
    state = module.state if module is not None else None
    found = state.get("yaml") if isinstance(state, dict) else None
    return {str(k): v for k, v in found.items()} if isinstance(found, dict) else {}


def _x(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "a number"
