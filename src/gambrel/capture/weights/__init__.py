"""Headers of weight files: which tensors they hold, and how many bytes each takes. No weights."""
