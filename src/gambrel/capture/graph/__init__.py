"""What readers of operator graphs share: formats whose files say the shape of every tensor.

A reader turns the operators of its format into steps of a trace through `Writer`, with operators of
ONNX where they mean the same and those of `lowering` where layouts or attributes differ; `finish`
makes the workload.
"""
