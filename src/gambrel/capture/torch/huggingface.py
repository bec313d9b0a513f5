"""A transformers ``config.json`` as a workload: the architecture without weights or remote code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from msgspec.structs import replace

from gambrel.capture.closed_form import DECODE, PREFILL
from gambrel.capture.torch import capture, lean_init
from gambrel.capture.torch.hf_config import Architecture, architecture_of, field_of
from gambrel.capture.torch.hf_inputs import (
    check_sizes,
    inputs_at,
    phases_of,
    remarks_on_inputs,
    symbols_of,
)
from gambrel.capture.torch.hf_sizes import capture_open
from gambrel.errors import CaptureError, InputError
from gambrel.workload import Symbol, Workload

_REMARKS: Final[dict[str, tuple[str, ...]]] = {
    PREFILL: (
        "Prefill: the head runs on the last token only, and keys and values stay where their "
        "projections write them (no copy into a cache).",
    ),
    DECODE: (
        "Decode: one new token a sequence; its key and value are written into an allocated cache "
        "of 'context' tokens, which each layer reads once.",
    ),
}
_MIXTURE: Final = "Mixture of experts: tokens are spread evenly over the experts."
_LATENT: Final = (
    "Decode of multi-head latent attention: as in transformers, the cached latent is projected up "
    "at each step; serving kernels absorb these projections and do far less."
)


class HuggingFaceModel:
    """A transformers architecture, built without memory for its weights, to be captured at sizes.

    Attributes:
        architecture: Which class and configuration.
        module: The ``torch.nn.Module``.
    """

    def __init__(self, config: Any, *, dtype: str | None = None) -> None:
        """Builds the model.

        Args:
            config: The content of a ``config.json``, or a configuration object.
            dtype: ``"bfloat16"``, ``"float32"``, ... ; the configuration's own when None.

        Raises:
            GambrelError: As `architecture_of`; CaptureError when the model cannot be built.
        """
        self.architecture = architecture_of(config)
        with _quiet():
            self.module = _build(self.architecture, dtype)

    @property
    def phases(self) -> tuple[str, ...]:
        """``("prefill", "decode")`` for a language model, else empty; the default first."""
        return phases_of(self.architecture)

    def symbols(self, phase: str | None = None) -> tuple[Symbol, ...]:
        """The sizes that can be chosen in a phase."""
        return symbols_of(self.architecture, self._phase(phase))

    def capture(
        self,
        phase: str | None = None,
        sizes: Mapping[str, int] | None = None,
        *,
        last_logits: bool = True,
        **options: Any,
    ) -> Workload:
        """The workload of one call at fixed sizes.

        Args:
            phase: One of `phases`; None for the default.
            sizes: Values of `symbols`; defaults for the others.
            last_logits: In prefill, run the head on the last token only (as servers do) instead of
                on all tokens.
            **options: Passed on to `gambrel.capture.torch.capture`.
        """
        phase = self._phase(phase)
        values = check_sizes(symbols_of(self.architecture, phase), sizes or {})
        with _quiet():
            inputs = inputs_at(self.architecture, self.module, phase, values)
            if not last_logits:
                inputs.pop("logits_to_keep", None)
            found = capture(self.module, (), inputs, **options)
        remarks = self._remarks(phase if last_logits else None)
        return replace(found, assumptions=(*found.assumptions, *remarks))

    def _phase(self, phase: str | None) -> str | None:
        if phase is None:
            return self.phases[0] if self.phases else None
        if phase not in self.phases:
            name = self.architecture.model_class.__name__
            have = f"phases: {', '.join(self.phases)}" if self.phases else "one forward pass"
            raise InputError(f"{name} has no phase {phase!r}; it has {have}.")
        return phase

    def _remarks(self, phase: str | None) -> tuple[str, ...]:
        config = self.architecture.config
        remarks = [*self.architecture.assumptions, *remarks_on_inputs(self.architecture)]
        remarks.extend(_REMARKS.get(phase or "", ()))
        if any(getattr(config, n, None) for n in ("num_local_experts", "n_routed_experts")):
            remarks.append(_MIXTURE)
        if phase == DECODE and field_of(config, "kv_lora_rank"):
            remarks.append(_LATENT)
        return tuple(remarks)


def workload_from_config(
    config: Any, *, phase: str | None = None, name: str = "", **sizes: int
) -> Workload:
    """The workload of a transformers configuration.

    Args:
        config: The content of a ``config.json`` as a dict, or a configuration object. Code that
            the file points at is never run.
        phase: ``"prefill"`` (the default of language models) or ``"decode"``.
        name: What to call the workload; the model type when empty.
        **sizes: ``batch``, ``seq``, ``context`` or ``target``, as the model has them.

    Returns:
        A workload with the given sizes fixed (one capture) and the others symbolic (a few
        captures, lifted), as far as polynomials describe the model.

    Raises:
        MissingExtraError: transformers is not installed.
        UnknownNameError: transformers does not know this ``model_type``.
        CaptureError: Fields are missing or wrong, or the model cannot be captured.
        InputError: A phase or size that this model does not have.
    """
    model = HuggingFaceModel(config)
    symbols = model.symbols(phase)
    check_sizes(symbols, sizes)
    own = model.architecture.config
    found = capture_open(lambda at: model.capture(phase, at), symbols, sizes)
    return replace(
        found,
        name=name or str(own.model_type),
        origin=origin_of(model.architecture),
        chosen_dtype=own.dtype is not None,
    )


def origin_of(architecture: Architecture) -> str:
    """For example ``"transformers 5.23.0 LlamaForCausalLM"``."""
    from transformers import __version__

    return f"transformers {__version__} {architecture.model_class.__name__}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' advice on running the model, which nobody is going to."""
    from transformers import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _implementations(model_class: Any) -> dict[str, str]:
    """Grouped experts where the model has any: the other ways loop over data or gather weights."""
    ask = getattr(model_class, "_can_set_experts_implementation", lambda: False)
    return {"experts_implementation": "grouped_mm"} if ask() else {}


def _build(architecture: Architecture, dtype: str | None) -> Any:
    import torch

    chosen = dtype or architecture.config.dtype or torch.get_default_dtype()
    chosen = getattr(torch, chosen) if isinstance(chosen, str) else chosen
    make: Any = architecture.model_class
    try:
        with lean_init():
            model = make._from_config(architecture.config, dtype=chosen, **_implementations(make))
    except Exception as error:  # whatever a model's constructor raises on a user's file
        text = " ".join(str(error).split()).rstrip(".")[:300]
        raise CaptureError(
            f"{make.__name__} cannot be built from this configuration: {text}."
        ) from error
    return model.eval()
