"""Small workloads, written op by op. Every number is fp32: four bytes."""

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.fusion import group
from gambrel.ops import Conventions
from gambrel.runtimes import Kernels
from gambrel.workload import Op, Role, Tensor, Workload


class Net:
    """Collects tensors and ops; every method returns the index of the tensor it makes."""

    def __init__(self):
        self.tensors = []
        self.ops = []
        self.outputs = []
        self._versions = {}

    def tensor(self, *shape, role=Role.ACTIVATION, dtype="fp32", storage=None, **more):
        storage = len(self.tensors) if storage is None else storage
        self.tensors.append(Tensor(shape=shape, dtype=dtype, storage=storage, role=role, **more))
        return len(self.tensors) - 1

    def input(self, *shape, **more):
        return self.tensor(*shape, role=Role.INPUT, **more)

    def weight(self, *shape, **more):
        return self.tensor(*shape, role=Role.WEIGHT, **more)

    def view(self, source, *shape, offset=0):
        """Another look at the memory of a tensor."""
        t = self.tensors[source]
        return self.tensor(*shape, storage=t.storage, role=t.role, dtype=t.dtype, offset=offset)

    def op(self, kind, inputs, shape, *, into=None, function="", repeat=1, sizes=None, **attrs):
        """An op; ``into`` writes to the memory of a tensor instead of a new one."""
        storage = None if into is None else self.tensors[into].storage
        role = Role.ACTIVATION if into is None else self.tensors[into].role
        version = 0
        if storage is not None:
            version = self._versions[storage] = self._versions.get(storage, 0) + 1
        out = self.tensor(*shape, storage=storage, version=version, role=role)
        if function:
            attrs["function"] = function
        self.ops.append(
            Op(
                kind=kind,
                inputs=tuple(inputs),
                outputs=(out,),
                sizes=sizes or {},
                attrs=attrs,
                repeat=repeat,
            )
        )
        return out

    def shape(self, index):
        return self.tensors[index].shape

    def matmul(self, x, weight):
        m, k = self.shape(x)
        n = self.shape(weight)[1]
        return self.op("matmul", [x, weight], (m, n), sizes={"b": 1, "m": m, "n": n, "k": k})

    def convolution(self, x, out_channels):
        n, channels, h, w = self.shape(x)
        kernel = self.weight(out_channels, channels, 1, 1)
        sizes = {
            "batch": n, "out_channels": out_channels, "in_channels": channels, "groups": 1,
            "kernel": (1, 1), "spatial": (h, w),
        }  # fmt: skip
        return self.op("convolution", [x, kernel], (n, out_channels, h, w), sizes=sizes)

    def pointwise(self, function, *inputs, **more):
        """An element-wise op of the shape of its first input."""
        shape = self.shape(inputs[0])
        return self.op(
            "elementwise", inputs, shape, function=function,
            sizes={"elements": _count(shape)}, **more,
        )  # fmt: skip

    def copy(self, x, shape=None, function="clone"):
        shape = shape or self.shape(x)
        return self.op("copy", [x], shape, function=function, sizes={"elements": _count(shape)})

    def cat(self, *parts):
        """Joined along the first dimension."""
        first = sum(self.shape(x)[0] for x in parts)
        shape = (first, *self.shape(parts[0])[1:])
        return self.op("copy", parts, shape, function="cat", sizes={"elements": _count(shape)})

    def fill(self, *shape):
        return self.op("fill", [], shape, sizes={"elements": _count(shape)})

    def layer_norm(self, x):
        shape = self.shape(x)
        rows = _count(shape[:-1])
        scale, shift = self.weight(shape[-1]), self.weight(shape[-1])
        return self.op(
            "normalization", [x, scale, shift], shape, function="layer_norm", affine=True,
            sizes={"elements": _count(shape), "groups": rows},
        )  # fmt: skip

    def group_norm(self, x, groups):
        shape = self.shape(x)
        return self.op(
            "normalization", [x], shape, function="group_norm",
            sizes={"elements": _count(shape), "groups": groups},
        )  # fmt: skip

    def batch_norm(self, x):
        """At inference: a scale and a shift a channel."""
        shape = self.shape(x)
        stored = [self.weight(shape[1]) for _ in range(4)]
        return self.op(
            "normalization", [x, *stored], shape, function="batch_norm", statistics=False,
            sizes={"elements": _count(shape), "groups": shape[1]},
        )  # fmt: skip

    def softmax(self, x):
        shape = self.shape(x)
        sizes = {"elements": _count(shape), "rows": _count(shape[:-1])}
        return self.op("softmax", [x], shape, function="softmax", sizes=sizes)

    def mean(self, x):
        """Over the last dimension, kept."""
        shape = (*self.shape(x)[:-1], 1)
        sizes = {"elements": _count(self.shape(x)), "outputs": _count(shape)}
        return self.op("reduction", [x], shape, function="mean", sizes=sizes)

    def embedding(self, table, indices):
        rows, width = self.shape(indices)[0], self.shape(table)[1]
        sizes = {"rows": rows, "width": width, "table_rows": self.shape(table)[0]}
        return self.op("embedding", [table, indices], (rows, width), sizes=sizes)

    def workload(self, *outputs):
        return Workload(
            name="net",
            dtype="fp32",
            tensors=tuple(self.tensors),
            ops=tuple(self.ops),
            outputs=outputs,
        )


def evaluator(workload):
    return Evaluator(workload, workload.resolve_symbols({}), {}, Conventions())


def kernels(workload, how="pointwise", allowance=None):
    priced = tuple(evaluator(workload).costs())
    return group(workload, priced, Kernels(how), allowance)


def groups(workload, how="pointwise"):
    """The op indices of each kernel."""
    return [k.ops for k in kernels(workload, how)]


def traffic(workload, how="pointwise", allowance=None):
    return sum(k.traffic_bytes for k in kernels(workload, how, allowance))


def _count(shape):
    product = 1
    for size in shape:
        product *= size
    return product
