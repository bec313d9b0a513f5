"""One capture from beginning to end: set up, run, label, put everything back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from gambrel.capture.torch.autocast import Autocast
from gambrel.capture.torch.casts import NARROW
from gambrel.capture.torch.execute import Assumptions, MetaExecutor
from gambrel.capture.torch.ledger import Ledger
from gambrel.capture.torch.module import enter_parameters, meta_module
from gambrel.capture.torch.nested import copy_inputs, label_tensors, returned_tensors, tensors_of
from gambrel.capture.torch.recorder import NESTED, Recorder
from gambrel.capture.torch.replace import replacements
from gambrel.capture.torch.scopes import Scopes
from gambrel.capture.torch.scripted import is_scripted, on_meta
from gambrel.capture.torch.training import train_step
from gambrel.capture.torch.twins import Twins
from gambrel.collector import without_collector
from gambrel.errors import CaptureError, GambrelError
from gambrel.workload import Role, Workload
from gambrel.workload.formats import recorded_in
from gambrel.workload.parameters import main_dtype, mention_unread
from gambrel.workload.prune import drop_unused_outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """See `gambrel.capture.torch.capture`; ``narrow`` is a format to capture a model of fp32 in."""

    train: bool = False
    autocast: str | None = None
    optimizer: Any = None
    loss: Callable[[Any], Any] | None = None
    name: str = ""
    origin: str = ""
    source: bool = True
    views: bool = False
    execute: bool = False
    device: str = "cuda"
    narrow: Any = None


class Session:
    """The parts of one capture."""

    def __init__(self, options: CaptureOptions) -> None:
        self.options = options
        self.ledger = Ledger()
        self.twins = Twins(self.ledger, options.narrow)
        self.scopes = Scopes()
        self.scopes.tracing = options.train
        self.assumptions = Assumptions()
        self.autocast = Autocast(self)
        executor = None if options.execute else MetaExecutor(self.twins, self.assumptions)
        self.recorder = Recorder(
            self.ledger,
            self.scopes,
            executor,
            source=options.source,
            views=options.views,
        )


def run(
    model: Any, args: Any, kwargs: Mapping[str, Any] | None, options: CaptureOptions
) -> Workload:
    """See `gambrel.capture.torch.capture`."""
    with without_collector():
        session = Session(options)
        found = _run(model, args, kwargs, session)
        formats = found.dtype, found.precisions
        if options.execute or not session.ledger.asks_fp32 or formats != ("fp32", ""):
            return found
        narrow = Session(replace(options, narrow=NARROW))
        try:
            return recorded_in(found, _run(model, args, kwargs, narrow))
        except CaptureError:  # code that does not run in 16 bits
            return found


def _run(model: Any, args: Any, kwargs: Mapping[str, Any] | None, session: Session) -> Workload:
    options = session.options
    model = model if options.execute else on_meta(model)
    positional, named = _as_call(args, kwargs)
    name = options.name or getattr(model, "__name__", type(model).__name__)
    with ExitStack() as stack:
        stack.enter_context(_same_random_state())
        if isinstance(model, torch.nn.Module):
            stack.enter_context(meta_module(model, session))
        positional, named = copy_inputs(model, positional, named, session)
        stack.enter_context(replacements(session))
        stack.enter_context(_explained(name, session))
        outputs = _call(model, positional, named, session)
    returned = list(returned_tensors(outputs))
    label_tensors(session.ledger, (positional, named, outputs), returned)
    _mention_copied_caches(session)
    given = (t for t, _ in tensors_of((positional, named)))
    ledger = session.ledger
    ledger.enter_whole((t for t in given if ledger.storage(t).role is Role.INPUT), read=True)
    return _workload(model, name, session, returned)


def _mention_copied_caches(session: Session) -> None:
    """Says so where the library's way to keep a cache is not the one that servers use."""
    roles = [t.role for t in session.ledger.tensors()]
    for op in session.recorder.ops:
        if op.name != "aten.cat" or roles[op.outputs[0]] is not Role.KV_CACHE:
            continue
        if any(roles[i] is Role.KV_CACHE for i in op.inputs):
            session.assumptions.add(
                "the key-value cache is copied at every step, as the library's growing cache does; "
                "a static or paged cache is written in place"
            )
            return


def _call(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], session: Session) -> Any:
    if session.options.train:
        return train_step(model, args, kwargs, session)
    # Where autograd is off altogether, composite ops reach the recorder whole.
    quiet = torch.inference_mode() if is_scripted(model) else torch.no_grad()
    with quiet, session.recorder, session.autocast.asked():
        return model(*args, **kwargs)


def _as_call(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    named = dict(kwargs or {})
    if isinstance(args, Mapping):
        return (), {**args, **named}
    if isinstance(args, (tuple, list)) and not hasattr(args, "_fields"):
        return tuple(args), named
    return (args,), named


@contextmanager
def _same_random_state() -> Iterator[None]:
    """Leaves the generators as they were; within, random values are always the same."""
    own = random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        random.seed(0)
        try:
            yield
        finally:
            random.setstate(own)


@contextmanager
def _explained(name: str, session: Session) -> Iterator[None]:
    try:
        yield
    except GambrelError as error:
        if not isinstance(error, CaptureError):
            raise
        raise CaptureError(f"{_where(name, session)}: {error}") from error
    except Exception as error:
        raise CaptureError(f"{_where(name, session)}: {_reason(error)}") from error


def _where(name: str, session: Session) -> str:
    module = session.scopes.failed
    last = f"at or after {session.recorder.last}" if session.recorder.last else "before any op"
    inside = f" in module {module!r}" if module else ""
    return f"cannot capture {name}: it stopped{inside} {last}"


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    said = f"{type(error).__name__}: {lines[0] if lines else 'no message'}".rstrip(".")
    said = said.partition(": attempted to run")[0]
    if "sparse" in said:
        return f"{said}. Sparse tensors have no form here; capture the model with dense ones"
    if "quantized::" in said:
        op = said.partition("quantized::")[2].partition(":")[0].split()[0]
        return (
            f"quantized::{op} runs on packed weights, which have no form on torch's meta device; "
            "capture the floating-point model and choose --precision int8, or quantize with torchao"
        )
    if isinstance(error, NotImplementedError) or "meta tensor" in said or "Meta backend" in said:
        return (
            f"{said}. The op has no shape function for torch's meta device: register one with "
            "torch.library.register_fake, or leave that op out of the forward pass"
        )
    if "CUDA" in said or "NVIDIA" in said:
        return f"{said}. The model names a device; let it use the one of its inputs or weights"
    if isinstance(error, TypeError):
        return f"{said}. Do the example inputs (args, kwargs) match the model's forward?"
    return (
        f"{said}. Does the model run outside capture with these inputs? "
        "If it does, please report it"
    )


def _workload(model: Any, name: str, session: Session, returned: list[Any]) -> Workload:
    options = session.options
    if any(t.is_nested for t in returned):
        raise CaptureError(f"{name}: {NESTED}.")
    outputs = tuple(dict.fromkeys(session.ledger.entry(t) for t in returned))
    if isinstance(model, torch.nn.Module):
        enter_parameters(model, session)
    kind = model if hasattr(model, "__qualname__") else type(model)
    origin = f"torch {torch.__version__} {kind.__module__}.{kind.__qualname__}"
    tensors = session.ledger.tensors()
    recorded = Workload(
        name=name,
        dtype=main_dtype(tensors),
        tensors=tensors,
        ops=tuple(session.recorder.ops),
        outputs=outputs,
        training=options.train,
        precisions=session.autocast.precisions,
        origin=options.origin or origin,
        assumptions=session.assumptions.sentences(),
    )
    return mention_unread(drop_unused_outputs(recorded))
