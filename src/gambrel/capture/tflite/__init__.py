"""TFLite (LiteRT) files as workloads: the flatbuffer is looked into in place, weights are not read.

`model_file` (the file, its tables as plain records), `walk` (subgraphs at their sizes, control
flow), `translation` (operators to steps), `reader` (the way in).
"""
