"""What a replayed measurement finds in the last cache, which a kernel within a model does not.

The rows were measured by replaying one CUDA graph over the same buffers. On the L40S, whose L2
holds 96 MB, a kernel of a few dozen MB then reads there what a layer of a model reads from memory.
How much stays follows from the bytes that are touched before a buffer comes around again, its
working set. The constants of this are fitted beside those of the kernels and serve rows like these
alone: whoever asks for the time of a model gets the cold kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: Devices whose rows are held against the replayed form.
REPLAYED: Final = ("l40s",)
#: Constants of it: how often other copies of the weights are read before one comes around again,
#: and how many times as fast as memory the cache is, less one.
CACHED: Final = ("replay_copies", "replay_cached")
#: vLLM's products with a scale a block time the host, which launches several kernels for each:
#: the shortest time, and by how much it is longer with more rows and for sizes that need copies.
HOST: Final = {"replay_host_s": 8e-5, "replay_host_rows": 0.3, "replay_host_odd": 0.5}
START: Final = {"replay_copies": 5.0, "replay_cached": 3.0, **HOST}
_FEW_ROWS: Final = 32
_BLOCK: Final = 128
#: How suddenly a cache that is passed over again and again stops to help once it is too small.
_SHARP: Final = 6
#: Working sets beyond so many caches leave nothing behind: such rows are cold.
COLD: Final = 1.5


def kept(working_bytes: Any, cache_bytes: float) -> Any:
    """Share of a buffer that the cache still holds when it comes around again."""
    return 1 / (1 + (working_bytes / cache_bytes) ** _SHARP)


def as_read(c: Mapping[str, float], cache_bytes: float, bytes_: Any, working_bytes: Any) -> Any:
    """The bytes of memory that take as long as ``bytes_`` of a buffer with this working set."""
    if "replay_cached" not in c:
        return bytes_
    cached = c["replay_cached"]
    return bytes_ * (1 - kept(working_bytes, cache_bytes) * cached / (1 + cached))


def hosted(c: Mapping[str, float], m: Any, n: Any, k: Any) -> Any:
    """Seconds that the host needs for a product, below which no kernel of such rows is measured."""
    if "replay_host_s" not in c:
        return 0.0
    more = 1 + c["replay_host_rows"] * (m > _FEW_ROWS)
    odd = 1 + c["replay_host_odd"] * ((n % _BLOCK > 0) | (k % _BLOCK > 0))
    return c["replay_host_s"] * more * odd


def of_replay(stack: str, device: str, formats: tuple[str, ...]) -> tuple[str, ...]:
    """The constants of the measurement that the rows of a stack need."""
    host = stack == "vllm" and "fp8_block" in formats
    return (CACHED if device in REPLAYED else ()) + (tuple(HOST) if host else ())


def model_constants(c: Mapping[str, float]) -> dict[str, float]:
    """Those of the kernel, without those of its measurement."""
    return {name: value for name, value in c.items() if not name.startswith("replay_")}
