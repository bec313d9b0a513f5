"""State-space scans of transformers as one op each, instead of a Python loop over the tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gambrel.capture.torch.semantic import Node
from gambrel.workload import Attributes

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session


def _is_transformers(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("transformers.")


def make_selective_scan(original: Any, session: Session) -> Callable[..., Any] | None:
    """What stands in for ``mamba_selective_scan`` (Mamba, Falcon-Mamba, Jamba, Zamba)."""
    if not _is_transformers(original):
        return None

    def mamba_selective_scan(
        hidden_states: Any,
        dt: Any,
        A: Any,  # noqa: N803  # the names of the original
        B: Any,  # noqa: N803
        C: Any,  # noqa: N803
        D: Any = None,  # noqa: N803
        z: Any = None,
        delta_bias: Any = None,
        delta_softplus: bool = False,
        return_last_state: bool = False,
        **kwargs: Any,
    ) -> Any:
        batch, channels, seq = hidden_states.shape
        attrs: Attributes = {
            "skip": D is not None,
            "gate": z is not None,
            "softplus": bool(delta_softplus),
        }

        def empty(x: Any, *_: Any) -> tuple[Any, ...]:
            state = x.new_empty((batch, channels, A.shape[-1]))
            # Kernels write (batch, tokens, channels) memory, which the projection after it reads.
            out = x.new_empty((batch, seq, channels)).transpose(1, 2)
            return (out, state) if return_last_state else (out,)

        def compute(*operands: Any) -> tuple[Any, ...]:
            found = original(*operands, delta_softplus, return_last_state, **kwargs)
            return tuple(found) if return_last_state else (found,)

        results = Node(
            session=session,
            name="transformers.mamba_selective_scan",
            kind="selective_scan",
            sizes={"batch": batch, "seq": seq, "channels": channels, "state": A.shape[-1]},
            attrs=attrs,
            empty=empty,
            compute=compute,
        )((hidden_states, dt, A, B, C, D, z, delta_bias))
        return results if return_last_state else results[0]

    return mamba_selective_scan


def make_chunk_scan(original: Any, session: Session) -> Callable[..., Any] | None:
    """What stands in for ``mamba2_chunk_scan`` (Mamba-2, Bamba, Zamba-2, Falcon-H1, ...)."""
    if not _is_transformers(original):
        return None

    def mamba2_chunk_scan(
        hidden_states: Any,
        dt: Any,
        A: Any,  # noqa: N803  # the names of the original
        B: Any,  # noqa: N803
        C: Any,  # noqa: N803
        chunk_size: int,
        D: Any = None,  # noqa: N803
        dt_bias: Any = None,
        initial_states: Any = None,
        dt_softplus: bool = False,
        dt_limit: tuple[float, float] = (0.0, float("inf")),
        return_final_states: bool = False,
        **kwargs: Any,
    ) -> Any:
        batch, seq, heads, width = hidden_states.shape

        def empty(x: Any, *_: Any) -> tuple[Any, ...]:
            state = x.new_empty((batch, heads, width, B.shape[-1]))
            return (x.new_empty(x.shape), state) if return_final_states else (x.new_empty(x.shape),)

        def compute(x: Any, dt: Any, a: Any, b: Any, c: Any, *rest: Any) -> tuple[Any, ...]:
            flags = (dt_softplus, dt_limit, return_final_states)
            found = original(x, dt, a, b, c, chunk_size, *rest, *flags, **kwargs)
            return tuple(found) if return_final_states else (found,)

        results = Node(
            session=session,
            name="transformers.mamba2_chunk_scan",
            kind="ssd_scan",
            sizes={
                "batch": batch,
                "seq": seq,
                "heads": heads,
                "head_dim": width,
                "state": B.shape[-1],
                "groups": B.shape[2],
                "chunk": chunk_size,
            },
            attrs={"skip": D is not None},
            empty=empty,
            compute=compute,
        )((hidden_states, dt, A, B, C, D, dt_bias, initial_states))
        return results if return_final_states else results[0]

    return mamba2_chunk_scan
