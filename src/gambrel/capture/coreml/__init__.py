"""Core ML models (.mlpackage, .mlmodel) as workloads: ML programs, whose weights are not read.

`messages` (the protobuf fields that are looked at), `model_file` (package and program), `walk`
(operations at their sizes), `translation` (operations to steps), `reader` (the way in).
"""
