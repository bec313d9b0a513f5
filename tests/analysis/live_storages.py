"""What a real run holds: unique storages that torch has alive after every op it dispatches."""

from __future__ import annotations

import gc

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveStorages(TorchDispatchMode):
    """Follows storages by weak references; a storage counts until torch has freed it."""

    def __init__(self):
        super().__init__()
        self._refs = {}
        self.peak = 0
        self.peak_op = ""

    def see(self, tensor):
        storage = tensor.untyped_storage()
        self._refs.setdefault(storage._cdata, (StorageWeakRef(storage), storage.nbytes()))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, result)):
            if isinstance(leaf, torch.Tensor):
                self.see(leaf)
        self._refs = {k: v for k, v in self._refs.items() if not v[0].expired()}
        live = sum(nbytes for _, nbytes in self._refs.values())
        if live > self.peak:
            self.peak, self.peak_op = live, str(func)
        return result


def peak_of(model, inputs, *, train=False):
    """Runs a model for real on the CPU.

    Returns:
        Most bytes alive at once (parameters, buffers and inputs included), and the op there.
    """
    live = LiveStorages()
    for tensor in (*model.parameters(), *model.buffers(), *inputs):
        live.see(tensor)
    gc.collect()
    if not train:
        with torch.no_grad(), live:
            model(*inputs)
        return live.peak, live.peak_op
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for parameter in model.parameters():  # the states are there once a first step was made
        state = optimizer.state[parameter]
        state["step"] = torch.zeros(())
        state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(parameter) for _ in range(2))
        for tensor in state.values():
            live.see(tensor)
    with live:
        outputs = model(*inputs)
        first = outputs if isinstance(outputs, torch.Tensor) else outputs[0]
        first.sum().backward()
        optimizer.step()
    return live.peak, live.peak_op
