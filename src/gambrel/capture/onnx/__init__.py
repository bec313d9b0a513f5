"""ONNX files as workloads: the structure alone is read, never the data of the weights.

From the file to the workload: `model_file` (bytes without weights), `walk` (nodes at given sizes,
with `folding` of shape arithmetic, `shapes` and `control` flow), `patterns` (decompositions),
`quantized` (QDQ), `lowering` (neutral kinds), `builder` (tensors and ops), `reader` (the way in).
"""
