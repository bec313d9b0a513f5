"""Headers of weight files: which tensors they hold, and how many bytes each takes. No weights."""

from gambrel.llm.files.gguf import GgufHeader, read_gguf
from gambrel.llm.files.stored import StoredTensor

__all__ = ["GgufHeader", "StoredTensor", "read_gguf"]
