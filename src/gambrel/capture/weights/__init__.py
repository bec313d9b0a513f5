"""Headers of weight files: which tensors they hold, and how many bytes each takes. No weights."""

from gambrel.capture.weights.gguf import GgufHeader, read_gguf
from gambrel.capture.weights.stored import StoredTensor

__all__ = ["GgufHeader", "StoredTensor", "read_gguf"]
