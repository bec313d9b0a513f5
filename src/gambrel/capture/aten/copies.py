"""Ops that move data without arithmetic."""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten.call import Call, Described
from gambrel.capture.aten.registry import by_op, rule

#: Neutral function → ATen names: all inputs read, all outputs written.
FUNCTIONS: Final[dict[str, str]] = {
    "clone": "clone lift_fresh_copy alias_copy detach_copy _foreach_clone _pin_memory _to_cpu",
    "cat": "cat concat concatenate stack _stack _chunk_cat row_stack"
    " hstack vstack dstack column_stack block_diag",
    "pad": "constant_pad_nd pad reflection_pad1d reflection_pad2d reflection_pad3d"
    " replication_pad1d replication_pad2d replication_pad3d _pad_circular zero_pad2d",
    "repeat": "repeat tile repeat_interleave",
    "roll": "roll fft_fftshift fft_ifftshift",
    "flip": "flip fliplr flipud rot90",
    "layout": "pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle im2col"
    " unfold_copy to_dense _to_dense to_mkldnn _mkldnn_reorder_conv2d_weight"
    " mkldnn_reorder_conv2d_weight _mkldnn_transpose _convert_weight_to_int4pack"
    " _convert_weight_to_int4pack_for_cpu"
    " _pack_padded_sequence lu_unpack diag diag_embed",
    "contiguous": "permute_copy view_copy narrow_copy slice_copy select_copy split_copy expand_copy"
    " transpose_copy t_copy squeeze_copy unsqueeze_copy unbind_copy diagonal_copy as_strided_copy"
    " split_with_sizes_copy _reshape_copy _reshape_alias_copy view_as_complex_copy"
    " view_as_real_copy _neg_view_copy _conj_copy cartesian_prod combinations",
    # A part of self is replaced, and not needed.
    "slice_scatter": "slice_scatter select_scatter diagonal_scatter as_strided_scatter",
    "slice_backward": "slice_backward select_backward diagonal_backward",
}
_FUNCTION_OF: Final = by_op(FUNCTIONS)


@rule(*_FUNCTION_OF)
def copy(call: Call) -> Described:
    """Every input read once, every output written once."""
    return call.described("copy", attrs={"function": _FUNCTION_OF[call.op]})


@rule("aten.copy", "aten._to_copy", "aten._copy_from", "aten._copy_from_and_resize")
def to_copy(call: Call) -> Described:
    """A copy, maybe into another number format; ``copy_`` does not read what it overwrites."""
    source = call.tensor(0)
    if call.name == "copy":
        source = call.tensor(1, "src" if call.overload in ("", "default", "out") else "other")
    function = "copy" if source.dtype == call.out.dtype else "cast"
    return call.described("copy", attrs={"function": function}, inputs=[source])


@rule("aten._foreach_copy")
def listed_copy(call: Call) -> Described:
    """self, src: lists of equal length."""
    sources = call.arg(1, "src")
    cast = sources[0].dtype != call.out.dtype
    return call.described("copy", attrs={"function": "cast" if cast else "copy"}, inputs=sources)
