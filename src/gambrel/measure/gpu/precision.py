"""Number formats as they are named: torch's precision flags while peaks are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

#: fp32 keeps this; TF32 has ten bits behind the point and makes it 1.
_FINE: Final = 1 + 2.0**-13
#: Side of the product that finds out; tiny ones may run elsewhere.
_SIDE: Final = 1024

#: Flags of torch.backends.cuda.matmul that change the arithmetic, as they are in a new process.
_HONEST: Final = {"allow_fp16_accumulation": False}


@contextmanager
def honest(device: str) -> Iterator[None]:
    """Honest fp32 and 16-bit products, no gradients, no autocast; all as before afterwards.

    The random state of the device is kept as well.

    Args:
        device: As torch names it.
    """
    import torch

    family, _, number = device.partition(":")
    matmul = torch.backends.cuda.matmul
    put_back = [_fp32_saved()]
    for flag, value in _HONEST.items():
        if hasattr(matmul, flag):  # older versions have not
            put_back.append(_setter(matmul, flag, getattr(matmul, flag)))
            setattr(matmul, flag, value)
    put_back.append(_setter(torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark))
    torch.backends.cudnn.benchmark = False
    # Without a list, all GPUs of the machine would be started, and torch warns of it.
    devices = [int(number or 0)] if family == "cuda" else []
    try:
        with (
            torch.no_grad(),
            torch.random.fork_rng(devices=devices),
            torch.autocast(device_type=family, enabled=False),
        ):
            yield
    finally:
        for put in put_back:
            put()


def allow_tf32(allowed: bool) -> None:
    """Lets fp32 matmuls run in TF32, or forbids it.

    From 2.9 on torch has a setting for each backend. Reading the old one raises an error when the
    user has set the new, so that only the new one is touched where there is one.
    """
    import torch

    matmul = torch.backends.cuda.matmul
    if hasattr(matmul, "fp32_precision"):
        matmul.fp32_precision = "tf32" if allowed else "ieee"
    else:
        torch.set_float32_matmul_precision("high" if allowed else "highest")


def tf32_allowed() -> frozenset[str]:
    """Kinds of op that torch may run in TF32 on a GPU where the model is in fp32."""
    import torch

    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    if hasattr(matmul, "fp32_precision"):
        flags = {
            "convolution": cudnn.conv.fp32_precision == "tf32",
            "recurrent": cudnn.rnn.fp32_precision == "tf32",
            "matmul": matmul.fp32_precision == "tf32",
        }
    else:
        flags = {
            "convolution": cudnn.allow_tf32,
            "recurrent": cudnn.allow_tf32,
            "matmul": matmul.allow_tf32,
        }
    return frozenset(kind for kind, allowed in flags.items() if allowed)


def rounds_to_tf32(device: str) -> bool:
    """Whether an fp32 matmul on this device rounds its operands, as the flags are now."""
    import torch

    fine = torch.full((_SIDE, _SIDE), _FINE, device=device, dtype=torch.float32)
    one = torch.eye(_SIDE, device=device, dtype=torch.float32)
    return bool((torch.mm(fine, one) != fine).any())


def _fp32_saved() -> Callable[[], None]:
    import torch

    matmul = torch.backends.cuda.matmul
    old, new = _old_flag(), getattr(matmul, "fp32_precision", None)

    def put() -> None:
        if new is not None:
            # "none" inherits from a general setting; what is read then is that setting's value.
            matmul.fp32_precision = "none"
            if matmul.fp32_precision != new:
                matmul.fp32_precision = new
        if old is not None and _old_flag() != old:
            torch.set_float32_matmul_precision(old)

    return put


def _old_flag() -> str | None:
    """The flag for all backends; None where a user of the new ones may not read it."""
    import torch

    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        return None


def _setter(owner: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(owner, name, value)
