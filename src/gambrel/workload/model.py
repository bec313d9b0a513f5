"""The workload: what a model asks of a machine, independent of any machine and framework."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from gambrel.errors import WorkloadError
from gambrel.workload.symbols import Dim, Symbol

SCHEMA_VERSION = 1

Sizes: TypeAlias = dict[str, Dim | tuple[Dim, ...]]
Attributes: TypeAlias = dict[str, bool | int | float | str]


class Role(StrEnum):
    """What a tensor is to the model; decides what must be in memory and what is read once."""

    WEIGHT = "weight"  # a parameter
    BUFFER = "buffer"  # kept with the model, not a parameter: running statistics, position ids
    INPUT = "input"
    OUTPUT = "output"
    ACTIVATION = "activation"
    CONSTANT = "constant"
    KV_CACHE = "kv_cache"
    STATE = "state"
    GRADIENT = "gradient"
    OPTIMIZER_STATE = "optimizer_state"


#: What is in memory before a run, or stays there after it.
PERSISTENT: Final = frozenset(
    {Role.WEIGHT, Role.BUFFER, Role.CONSTANT, Role.KV_CACHE, Role.STATE}
    | {Role.GRADIENT, Role.OPTIMIZER_STATE}
)


class Phase(StrEnum):
    """The part of a step to which an op belongs."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


class Tensor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tensor, or a view of one, as an op sees it.

    Attributes:
        shape: Sizes, possibly symbolic; ``()`` is a scalar.
        dtype: A name of `gambrel.dtypes`.
        storage: Id of the memory behind it. Views and aliases share a storage.
        offset: First element within the storage, where known.
        elements: Distinct elements it covers, where fewer than the product of the shape (an
            expanded view); None otherwise.
        version: How often the storage was written before this tensor was seen.
        role: What it is to the model.
        name: Parameter, buffer or argument name; empty for intermediates.
        copies: How many tensors like it exist, where repeated ops (`Op.repeat`) have one each:
            the weights and caches of equal layers. Memory and parameter counts multiply.
    """

    shape: tuple[Dim, ...]
    dtype: str
    storage: int
    offset: Dim = 0
    elements: Dim | None = None
    version: int = 0
    role: Role = Role.ACTIVATION
    name: str = ""
    copies: int = 1


class Op(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation.

    Attributes:
        kind: A neutral kind of `gambrel.ops`, e.g. ``"matmul"``; the framework's name when no
            neutral kind is known (it is then unmodelled).
        inputs: Indices into `Workload.tensors`.
        outputs: Indices into `Workload.tensors`.
        sizes: Numbers that the formula needs and that may depend on symbols, e.g. m, n, k.
        attrs: What else the formula needs, e.g. ``{"causal": True}``.
        name: The framework's name, e.g. ``"aten.addmm"``.
        module: Path of the module that ran it, e.g. ``"layer1.0.conv2"``; empty at top level.
        source: ``file.py:line`` of the model's code, where known.
        phase: Forward, backward or optimizer.
        repeat: How many identical executions this entry stands for.
        labels: What its file calls it: the node, and the tensors that it writes.
    """

    kind: str
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    sizes: Sizes = {}
    attrs: Attributes = {}
    name: str = ""
    module: str = ""
    source: str = ""
    phase: Phase = Phase.FORWARD
    repeat: int = 1
    labels: tuple[str, ...] = ()


#: Begins the formats of a workload that runs inside ``torch.autocast``.
AUTOCAST: Final = "autocast-"
#: Dimensions of a batch of images.
_IMAGES: Final = 4
#: The way to images of another side.
_OTHER_SIDE: Final = (
    " For images of another side give an .onnx export at that side, timm/NAME, or file.py:function."
)
#: How the origin of a workload begins that was captured from code, with inputs that were given.
_LIVE: Final = "torch "
#: Inputs that a message may list.
_FEW_INPUTS: Final = 2


class Workload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """A model's ops and tensors in execution order.

    Attributes:
        name: Canonical name, e.g. ``"resnet50"``.
        dtype: The floating format that the model was captured in; what a precision replaces.
        tensors: All tensors; ops refer to them by index.
        ops: In execution order.
        outputs: Indices of the tensors that the model returns.
        symbols: The sizes that may be chosen; empty when every dimension is fixed.
        training: Whether backward and optimizer are part of it.
        origin: Where it comes from, e.g. ``"torchvision 0.28.0 resnet50"``.
        asked_dtype: Whether the user wrote the dtype down; nothing else is run in its place.
        chosen_dtype: Whether the dtype was the user's choice (a module or file) rather than an
            artefact of capturing an architecture (the zoo).
        precisions: Number formats part by part that it was built with, e.g. ``"w4a16,kv=fp8"``;
            nothing is cast then. Empty where one precision replaces ``dtype``.
        recorded_dtype: The format in which tensors of the model's own stand here, where code that
            asks for ``dtype`` by name is told apart; see `gambrel.workload.formats`. Empty where
            they stand in ``dtype`` themselves.
        assumptions: What had to be assumed, one sentence each; printed with every result.
        recipe: How a closed form was made, so that reports can make it at other sizes; see
            `gambrel.llm.recipe`. Empty for everything that was captured.
    """

    name: str
    dtype: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    outputs: tuple[int, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    training: bool = False
    origin: str = ""
    asked_dtype: bool = False
    chosen_dtype: bool = True
    precisions: str = ""
    recorded_dtype: str = ""
    assumptions: tuple[str, ...] = ()
    recipe: str = ""
    schema_version: int = SCHEMA_VERSION

    @property
    def own_dtype(self) -> str:
        """The format that tensors of the model's own have here."""
        return self.recorded_dtype or self.dtype

    @property
    def is_autocast(self) -> bool:
        """Whether PyTorch chooses the formats op by op: no engine runs it so."""
        return self.precisions.startswith(AUTOCAST)

    @property
    def needs_trainer(self) -> bool:
        """Whether only software that trains models runs it."""
        return self.training or self.is_autocast

    @property
    def asked_precision(self) -> str | None:
        """The dtype where the user wrote it down, else None."""
        return self.dtype if self.asked_dtype else None

    def __repr__(self) -> str:
        """One line; the ops of a model in full would be megabytes."""
        sizes = "".join(f", {s.name} {s.default:,}" for s in self.symbols)
        step = ", training step" if self.training else ""
        return f"<Workload: {self.name}{sizes}, {self.dtype}, {len(self.ops):,} ops{step}>"

    def resolve_symbols(self, chosen: Mapping[str, int | None]) -> dict[str, int]:
        """Returns a value for every symbol: the chosen ones, checked, and defaults.

        Raises:
            WorkloadError: A name that is no symbol of this model, or a value out of its range.
        """
        known = {s.name: s for s in self.symbols}
        values = {s.name: s.default for s in self.symbols}
        for name, value in chosen.items():
            if value is None:
                continue
            if name not in known:
                have = ", ".join(known) or "none: its sizes are fixed"
                other = _OTHER_SIDE if name == "image" and self._sees() else ""
                other = other or ("" if known else self._another())
                raise WorkloadError(
                    f"{self.name} has no size {name!r}; it has {have}{self._taken()}.{other}"
                )
            known[name].check(value)
            values[name] = value
        return values

    def _another(self) -> str:
        """How to ask for other shapes of code that was captured with given ones."""
        coded = self._taken() and self.origin.startswith(_LIVE)
        return " For another batch give its --input with that in front." if coded else ""

    def _sees(self) -> bool:
        """Whether an input is a batch of images."""
        return any(t.role is Role.INPUT and len(t.shape) == _IMAGES for t in self.tensors)

    def _taken(self) -> str:
        """The shapes of a few inputs, for a message."""
        shapes = [t.shape for t in self.tensors if t.role is Role.INPUT and len(t.shape) > 1]
        taken = " and ".join(" x ".join(map(str, shape)) for shape in shapes)
        return f"; it takes {taken}" if 0 < len(shapes) <= _FEW_INPUTS else ""


class WorkloadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What `gambrel models list` shows of a zoo entry, without loading it."""

    name: str
    aliases: tuple[str, ...]
    family: str
    about: str
    parameters: int
    flops: int
    symbols: tuple[Symbol, ...]
    origin: str
