"""Who writes and who reads each storage of a workload."""

from __future__ import annotations

from collections import defaultdict

from gambrel.workload import Workload


class StorageLinks:
    """The ops at both ends of every storage.

    Attributes:
        writer: Storage → index of the last op that writes it.
        readers: Storage → indices of the ops that read it, in order.
    """

    def __init__(self, workload: Workload) -> None:
        """Looks at all ops."""
        self._tensors = workload.tensors
        self.writer: dict[int, int] = {}
        self.readers: dict[int, list[int]] = defaultdict(list)
        for index, op in enumerate(workload.ops):
            for storage in {self.storage(i) for i in op.inputs}:
                self.readers[storage].append(index)
            self.writer |= {self.storage(i): index for i in op.outputs}

    def storage(self, tensor: int) -> int:
        """The storage of a tensor by its index."""
        return self._tensors[tensor].storage
