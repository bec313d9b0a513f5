"""PyTorch (Kineto) traces.

`events` decodes the file, `tree` nests ops by time, `shapes` and `work` turn an op's recorded
shapes into FLOP and bytes, `reader` joins kernels with the ops that launched them.
"""
