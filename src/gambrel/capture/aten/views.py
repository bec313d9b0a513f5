"""Ops that move nothing: views, memory set aside, questions about shapes, reads by the host.

`aten.reshape`, `contiguous`, `flatten` and `to` are views or copies; the strides decide.
"""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten.call import Call, Described, TensorArg
from gambrel.capture.aten.registry import rule

VIEWS: Final = (
    "view view_as expand expand_as permute transpose t numpy_T mT mH adjoint matrix_H"
    " swapaxes swapdims movedim moveaxis squeeze unsqueeze slice select narrow split"
    " split_with_sizes chunk unsafe_split unsafe_split_with_sizes unsafe_chunk tensor_split hsplit"
    " vsplit dsplit unbind unflatten diagonal as_strided alias detach _unsafe_view _reshape_alias"
    " view_as_real view_as_complex real imag conj _conj _neg_view resolve_conj resolve_neg unfold"
    " lift lift_fresh ravel meshgrid broadcast_tensors broadcast_to requires_grad identity"
    " atleast_1d atleast_2d atleast_3d linalg_diagonal positive _test_parallel_materialize"
    " _make_dual _fw_primal _unpack_dual values indices crow_indices col_indices _values _indices"
    " _shape_as_tensor _lazy_clone _fused_sdp_choice"
    " set resize resize_as _resize_output data retain_grad"
)
ALLOCATIONS: Final = (
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided empty_quantized"
)
QUESTIONS: Final = (
    "sym_size sym_stride sym_numel sym_storage_offset sym_is_contiguous size stride numel dim"
    " storage_offset is_floating_point is_complex is_pinned is_same_size _version output_nr"
    " result_type can_cast is_contiguous _is_zerotensor _has_compatible_shallow_copy_type"
)
HOST_READS: Final = (
    "_local_scalar_dense item is_nonzero _assert_async _assert_scalar _functional_assert_scalar"
    " _functional_assert_async _assert_tensor_metadata _linalg_check_errors sym_constrain_range"
    " sym_constrain_range_for_size _functional_sym_constrain_range record_stream"
    " _functional_sym_constrain_range_for_size _make_dep_token"
)


def view(call: Call) -> Described:
    """Another look at the same memory, or memory set aside but not written."""
    return call.described("view")


def sync(call: Call) -> Described:
    """The host reads a number or checks a condition."""
    return call.described("sync")


@rule("aten.reshape", "aten.flatten", "aten.contiguous", "aten.reshape_as")
def maybe_copy(call: Call) -> Described:
    """A view when the memory order allows it, else a copy."""
    x = call.tensor(0)
    fits = is_contiguous(x) if call.name == "contiguous" else can_view(x, call.out.shape)
    if x.strides is None or fits:
        return call.described("view")
    return call.described("copy", attrs={"function": "contiguous"}, inputs=[x])


@rule("aten.to", "aten.type_as", "aten.float", "aten.half", "aten.bfloat16", "aten.double")
def cast(call: Call) -> Described:
    """A copy when the number format changes, else the same tensor."""
    x = call.tensor(0)
    if x.dtype == call.out.dtype:
        return call.described("view")
    return call.described("copy", attrs={"function": "cast"}, inputs=[x])


def is_contiguous(tensor: TensorArg) -> bool:
    """Whether the elements lie in row-major order without gaps."""
    if tensor.strides is None:
        return False
    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def can_view(tensor: TensorArg, shape: tuple[int, ...]) -> bool:
    """Whether the same memory, in the same order, can be seen in another shape.

    Dimensions that follow each other in memory form chunks; the new dimensions must fill every
    chunk exactly.
    """
    if tensor.strides is None or not tensor.numel:
        return tensor.strides is not None
    wanted = [n for n in reversed(shape) if n != 1]
    for size, _ in reversed(_chunks(tensor.shape, tensor.strides)):
        filled = 1
        while filled < size and wanted:
            filled *= wanted.pop(0)
        if filled != size:
            return False
    return not wanted


def _chunks(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """(elements, innermost stride) of maximal runs of dimensions that lie densely together."""
    chunks: list[tuple[int, int]] = []
    outer = 0
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if chunks and outer == size * stride:
            chunks[-1] = (chunks[-1][0] * size, stride)
        else:
            chunks.append((size, stride))
        outer = stride
    return chunks


for _op in (VIEWS + " " + ALLOCATIONS + " " + QUESTIONS).split():
    rule(f"aten.{_op}")(view)
for _op in HOST_READS.split():
    rule(f"aten.{_op}")(sync)
rule("prim.device", "prim.layout", "prim.dtype")(view)
for _op in ("enter", "enter_new", "exit"):
    rule(f"profiler._record_function_{_op}")(sync)
