"""Front ends: from a name, a file or a live module to a workload.

`resolve` is the way in; `zoo` holds the built-in models, `files` reads model files without running
them, `torch` records live modules, and `aten` says what an ATen op is in neutral kinds.
"""
