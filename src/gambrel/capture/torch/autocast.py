"""Automatic mixed precision (``torch.autocast``), casts included, on any device.

torch casts where an op is dispatched, by the device of its tensors, and the meta device has no such
place. One of a device that nobody has any more is borrowed: while a model is captured inside
``autocast``, the ops that torch casts on the device asked for come to `_run` first, above autograd
as in torch, so that the backward pass casts as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import torch

from gambrel.capture.torch.patching import put
from gambrel.errors import CaptureError
from gambrel.workload.model import AUTOCAST

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session

#: The borrowed place: Graphcore's, which torch itself registers nothing for.
_PLACE: Final = "AutocastIPU"
_DEVICE: Final = "ipu"

#: Ops that torch runs in 16 bits; of the others that it casts, `_WIDEST` run in the widest format
#: of their operands and the rest in fp32. Source: torch 2.13, aten/src/ATen/autocast_mode.h and
#: https://docs.pytorch.org/docs/stable/amp.html (the ops of each device come from torch itself).
_LOWER: Final = frozenset(
    """
    _addmm_activation _convolution _native_multi_head_attention
    _scaled_dot_product_flash_attention _thnn_fused_gru_cell _thnn_fused_lstm_cell addbmm
    addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d conv_transpose3d convolution cudnn_convolution
    cudnn_convolution_transpose einsum gru_cell linalg_multi_dot linalg_vecdot linear
    lstm_cell matmul mkldnn_rnn_layer mm mv prelu rnn_relu_cell rnn_tanh_cell
    scaled_dot_product_attention
    """.split()  # noqa: SIM905 a list of one a line is longer than the module
)
_WIDEST: Final = frozenset(
    """
    addcdiv addcmul atan2 bilinear cat cross dot grid_sampler index_copy index_put scatter_add
    stack tensordot vdot
    """.split()  # noqa: SIM905 a list of one a line is longer than the module
)
_SOFTMAX: Final = {"softmax": torch.ops.aten._softmax, "log_softmax": torch.ops.aten._log_softmax}
#: Formats that it casts to.
FORMATS: Final = {"fp16": torch.float16, "bf16": torch.bfloat16}
_HALF: Final = tuple(FORMATS.values())


@dataclass(frozen=True, slots=True)
class _Region:
    """What one ``with torch.autocast(...)`` asks for."""

    enabled: bool = False
    kind: str = "cuda"
    dtype: Any = torch.float16
    cached: bool = True


@dataclass(slots=True)
class Autocast:
    """Follows the model in and out of ``autocast``.

    Attributes:
        session: The capture.
        regions: Those that the model is in, the innermost last.
        precisions: What to call the formats of the model; empty where it casts nothing.
        casts: Weights in 16 bits, by identity; torch casts one once in each outermost region.
    """

    session: Session
    regions: list[_Region] = field(default_factory=lambda: [_Region()])
    casts: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    precisions: str = ""
    _borrowed: ExitStack = field(default_factory=ExitStack)

    def enter(self, region: _Region) -> None:
        """The model enters a region."""
        self.regions.append(region)
        if region.enabled and not self.precisions:
            named = next(name for name, dtype in FORMATS.items() if dtype == region.dtype)
            self.precisions = f"{AUTOCAST}{named}"
        if region.enabled and _followed[-1:] != [self]:
            _followed.append(self)
            self._borrowed.callback(_followed.remove, self)
            _borrow(self._borrowed)

    def leave(self) -> None:
        """The model leaves the innermost region."""
        self.regions.pop()
        if not any(r.enabled for r in self.regions):
            self.casts.clear()
            self._borrowed.close()

    @contextmanager
    def asked(self) -> Iterator[None]:
        """The region that the user asked for around the forward pass."""
        name = self.session.options.autocast
        if name is None:
            yield
            return
        if name not in FORMATS:
            raise CaptureError(f"autocast takes {' or '.join(FORMATS)}, not {name!r}.")
        self.enter(_Region(True, "cuda", FORMATS[name]))
        try:
            yield
        finally:
            self.leave()

    def lower(self, tensors: Any) -> Any:
        """The operands of an op that runs in 16 bits, as it gets them."""
        region = self.regions[-1]
        return self.cast(tensors, region.dtype) if region.enabled else tensors

    def cast(self, value: Any, dtype: Any) -> Any:
        """``value``, a tensor or a list of them, in a format; what is no such number stays."""
        if isinstance(value, (list, tuple)):
            return type(value)(self.cast(v, dtype) for v in value)
        if not _is_eligible(value) or value.dtype == dtype:
            return value
        kept = value.requires_grad and value.is_leaf and value.dtype == torch.float32
        if not (kept and dtype in _HALF and self.regions[-1].cached and not value._is_view()):
            return value.to(dtype)
        if id(value) not in self.casts:
            self.casts[id(value)] = (value, value.to(dtype))
        return self.casts[id(value)][1]


#: The captures inside ``autocast``, the one under way last.
_followed: Final[list[Autocast]] = []


def follow(stack: ExitStack, session: Session) -> None:
    """Follows ``torch.autocast`` around the capture and inside the model."""
    autocast = session.autocast

    def made(
        self: Any,
        device_type: str,
        dtype: Any = None,
        enabled: Any = True,
        cache_enabled: Any = None,
    ) -> None:
        self.device = _known(device_type)
        self.fast_dtype = dtype or dtype_of(self.device)
        self._enabled = bool(enabled) and self.fast_dtype in _HALF
        self._cache_enabled = cache_enabled is None or bool(cache_enabled)

    def entered(self: Any) -> Any:
        autocast.enter(_Region(self._enabled, self.device, self.fast_dtype, self._cache_enabled))
        return self

    def left(*_: Any) -> None:
        autocast.leave()

    outer = _around()
    dtype_of = torch.get_autocast_dtype
    put(stack, torch.autocast, "__init__", made)
    put(stack, torch.autocast, "__enter__", entered)
    put(stack, torch.autocast, "__exit__", left)
    put(stack, torch, "is_autocast_enabled", lambda *_: autocast.regions[-1].enabled)
    put(stack, torch, "get_autocast_dtype", lambda kind: _asked(autocast, kind, dtype_of))
    if outer is not None:
        autocast.enter(outer)
        stack.callback(autocast.leave)


def _known(kind: Any) -> str:
    """The device whose rules hold: the meta tensors of a capture stand for those of a GPU."""
    name = str(kind).partition(":")[0]
    return "cuda" if name == "meta" else name


def _asked(autocast: Autocast, kind: str, dtype_of: Callable[[str], Any]) -> Any:
    region = autocast.regions[-1]
    return region.dtype if region.enabled else dtype_of(_known(kind))


def _around() -> _Region | None:
    """The region that the capture itself was called in."""
    for kind in ("cuda", "cpu"):
        if torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
            return _Region(True, kind, dtype, torch.is_autocast_cache_enabled())
    return None


# --- the borrowed place -----------------------------------------------------------------------


def _borrow(stack: ExitStack) -> None:
    """Sends the ops that are cast on some device to `_run`, until the stack is closed."""
    _registered()
    key = getattr(torch._C.DispatchKey, _PLACE)
    torch.set_autocast_enabled(_DEVICE, True)
    stack.callback(torch.set_autocast_enabled, _DEVICE, False)
    stack.enter_context(torch._C._IncludeDispatchKeyGuard(key))


@cache
def _registered() -> tuple[Any, Any]:
    """Registers them; torch forgets what is registered when the libraries go."""
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(torch.library.fallthrough_kernel, _PLACE)
    ops = torch.library.Library("aten", "IMPL")
    for name in sorted(_cast_on("cuda") | _cast_on("cpu")):
        op, _, overload = name.removeprefix("aten::").partition(".")
        function = getattr(getattr(torch.ops.aten, op), overload or "default")
        ops.impl(function, partial(_run, function, name, op), _PLACE)
    return everything, ops


@cache
def _cast_on(kind: str) -> frozenset[str]:
    """Names of the ops that torch casts on a device."""
    place = "AutocastCPU" if kind == "cpu" else "AutocastCUDA"
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = torch._C._dispatch_get_all_op_names()
    return frozenset(n for n in names if n.startswith("aten::") and has(n, place))


def _run(function: Any, name: str, op: str, *args: Any, **kwargs: Any) -> Any:
    """An op with its operands as torch casts them."""
    autocast = _followed[-1]
    region = autocast.regions[-1]
    key = getattr(torch._C.DispatchKey, _PLACE)
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
        if (
            not region.enabled
            or autocast.session.recorder.muted
            or name not in _cast_on(region.kind)
        ):
            return function(*args, **kwargs)
        if op in _LOWER:
            dtype = region.dtype
        elif op in _WIDEST:
            dtype = torch.float32 if torch.float32 in _formats((args, *kwargs.values())) else None
        elif region.kind != "cpu" and any(a.name == "dtype" for a in function._schema.arguments):
            return _in_fp32(function, op, args, kwargs)
        else:
            dtype = torch.float32
        if dtype is None:
            return function(*args, **kwargs)
        cast = autocast.cast
        return function(*cast(args, dtype), **{k: cast(v, dtype) for k, v in kwargs.items()})


def _in_fp32(function: Any, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An op that takes the format of its result, which autocast sets where nobody did.

    A softmax of fp16 is one kernel that writes fp32 on GPUs; of bf16 it is cast before.
    """
    names = [a.name for a in function._schema.arguments]
    given = kwargs.get("dtype") or (
        args[names.index("dtype")] if "dtype" in names[: len(args)] else None
    )
    if given is not None or not _is_eligible(args[0]):
        return function(*args, **kwargs)
    if op in _SOFTMAX and args[0].dtype == torch.float16 and args[0].is_meta:
        return _SOFTMAX[op](args[0], args[1], True)
    named = dict(zip(names, args, strict=False)) | kwargs | {"dtype": torch.float32}
    first = named.pop(names[0])
    return function(first, **named)


def _is_eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype != torch.float64
    )


def _formats(values: Any) -> set[Any]:
    found: set[Any] = set()
    for v in values:
        if isinstance(v, (list, tuple)):
            found |= _formats(v)
        elif _is_eligible(v):
            found.add(v.dtype)
    return found
