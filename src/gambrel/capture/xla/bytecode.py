"""Bytecode of StableHLO to text, in a process of its own: MLIR's reader crashes on damaged files.

``python -m gambrel.capture.xla.bytecode < module.mlirbc > module.mlir``
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Final

from gambrel.errors import FileFormatError, told

#: How a file begins.
MAGIC: Final = b"ML\xefR"

_SECONDS: Final = 60
#: Larger constants are left out of the text: their values are not looked at.
_MAX_ELEMENTS: Final = 256


def text_of(data: bytes) -> str:
    """The module as text, with its locations.

    Raises:
        FileFormatError: It is damaged.
    """
    command = [sys.executable, "-m", "gambrel.capture.xla.bytecode"]
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise FileFormatError(f"its bytecode takes more than {_SECONDS} s to read.") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = lines[0].partition("error: ")[2] if lines else ""
        raise FileFormatError(
            f"this is no whole bytecode of StableHLO ({told(why[:200] or 'it is damaged')})."
        )
    return done.stdout.decode("utf-8", "replace")


def exported(data: bytes) -> bytes:
    """The module in what ``jax.export.Exported.serialize`` wrote."""
    from jax import export

    return bytes(export.deserialize(bytearray(data)).mlir_module_serialized)


def _module(data: bytes) -> Any:
    from jaxlib.mlir.dialects import stablehlo

    from gambrel.capture.xla.context import make_context

    if not data.startswith(MAGIC):
        data = exported(data)
    return stablehlo.deserialize_portable_artifact(make_context(), data)


def main() -> None:
    """Reads bytecode from stdin and writes text to stdout."""
    try:
        module = _module(sys.stdin.buffer.read())
        text = module.operation.get_asm(enable_debug_info=True, large_elements_limit=_MAX_ELEMENTS)
    except Exception as error:  # of MLIR, of flatbuffers
        sys.stderr.write(f"error: {error}".splitlines()[0])
        sys.exit(1)
    sys.stdout.buffer.write(text.encode())


if __name__ == "__main__":
    main()
