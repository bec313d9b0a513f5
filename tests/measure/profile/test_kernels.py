"""Kernels of a compiler joined with ops: by names and order, and once for real."""

import warnings

import pytest

from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.measures import State
from gambrel.analysis.result import OpResult
from gambrel.analysis.roofs import roofs_of
from gambrel.device.lookup import from_peaks
from gambrel.measure.profile.join import ProfiledCall
from gambrel.measure.profile.kernels import (
    assign,
    canonical,
    fused_name,
    join_kernels,
    kernels_of,
)
from gambrel.workload import Workload

FAST = from_peaks(1e18, 1e18, name="fast")


def rows_of_names(*names):
    """Rows of ops that do nothing."""
    empty = analyze(Workload(name="none", dtype="fp32", tensors=(), ops=()), FAST, Settings()).total
    return [
        OpResult(
            name=name,
            kind=name,
            op=f"aten.{name}",
            module="",
            source="",
            phase="forward",
            state=State.COUNTED,
            count=1,
            shapes="",
            measures=empty,
        )
        for name in names
    ]


def test_names_of_one_thing():
    assert canonical("_native_batch_norm_legit_no_training") == canonical("native_batch_norm")
    assert canonical("_softmax") == "softmax"
    assert canonical("addmm") == canonical("mm") == canonical("_linear_pointwise")
    assert canonical("_scaled_dot_product_flash_attention_for_cpu") == "attention"
    assert canonical("gelu") == "gelu"
    assert fused_name("graph_0_cpp_fused_gelu_view_0") == "cpp_fused_gelu_view_0"
    assert fused_name("triton_poi_fused_add_relu_3") == "triton_poi_fused_add_relu_3"
    assert fused_name("addmm") == ""


def test_ops_go_to_the_kernel_between_their_neighbours_that_names_them():
    kernels = ("addmm", "g_cpp_fused_gelu_0", "addmm", "g_cpp_fused_add_native_layer_norm_1")
    ops = ("mm", "gelu", "mm", "add", "native_layer_norm")
    assert assign(kernels, ops) == ((0,), (1,), (2,), (3, 4))


def test_a_kernel_that_runs_twice_takes_the_ops_of_its_own_place():
    kernels = ("mm", "cpp_fused_relu_0", "mm", "cpp_fused_relu_0")
    assert assign(kernels, ("mm", "relu", "mm", "relu")) == ((0,), (1,), (2,), (3,))


def test_an_op_that_a_later_kernel_runs_is_found_a_little_further_on():
    kernels = ("mm", "mm", "cpp_fused_add_relu_0")
    assert assign(kernels, ("mm", "relu", "mm", "add")) == ((0,), (2,), (1, 3))


def test_an_op_that_no_kernel_names_belongs_to_none():
    assert assign(("mm",), ("mm", "dropout")) == ((0,),)


def test_the_outermost_kernels_are_taken():
    inner = ProfiledCall(name="copy", time_s=1.0)
    calls = (
        ProfiledCall(
            name="Torch-Compiled Region: 0/0",
            time_s=9.0,
            children=(
                ProfiledCall(name="addmm", time_s=4.0, children=(inner,)),
                ProfiledCall(name="graph_0_cpp_fused_gelu_0", time_s=2.0),
            ),
        ),
    )
    found = [c.name for c in kernels_of(calls, frozenset({"mm", "copy"}))]
    assert found == ["addmm", "graph_0_cpp_fused_gelu_0"]


def test_a_template_that_multiplies_is_found_by_any_of_its_names():
    kernels = ("triton_tem_fused_addmm_gelu_0", "triton_poi_fused_add_1")
    assert assign(kernels, ("mm", "gelu", "add")) == ((0, 1), (2,))


def test_on_a_device_what_else_ran_is_reported():
    rows = rows_of_names("addmm", "gelu")
    calls = [
        ProfiledCall(name="addmm", time_s=4.0),
        ProfiledCall(name="triton_poi_fused_gelu_0", time_s=2.0),
        ProfiledCall(name="Memcpy DtoD", time_s=0.5),
    ]
    for device, wanted in ((True, (("other kernels", 0.5),)), (False, ())):
        made, (joined,), kept = join_kernels([calls], rows, roofs_of(FAST), device=device)
        assert [r.name for r in made] == ["addmm", "triton_poi_fused_gelu_0"]
        assert joined.times_s == (4.0, 2.0)
        assert joined.unmatched == wanted
        assert joined.other_s == (0.0 if device else 0.5)
        assert kept == (0,)


@pytest.mark.slow
def test_a_compiled_model_is_profiled_by_kernel():
    torch = pytest.importorskip("torch")
    from shutil import which

    if which("g++") is None and which("c++") is None:
        pytest.skip("torch's compiler needs a C++ compiler")
    from gambrel import RooflineAnalyzer
    from gambrel.device.lookup import from_peaks

    net = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)
    ).eval()
    peaks = from_peaks(1e18, 1e18, name="f")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, while it compiles
        ra = RooflineAnalyzer(torch.compile(net), torch.randn(4, 32), peaks)
        ra.profile("cpu", warmup=1, steps=2)
    kinds = [(p.type, p.count) for p in ra.results]
    assert kinds == [("matmul", 1), ("fused kernel", 2), ("matmul", 1)]
    fused = ra.results[1]
    assert fused.name.startswith("cpp_fused")
    # GELU of 4 * 64 elements and the norm of 4 rows, read once and written once between them.
    assert fused.traffic_bytes < 2 * (2 * 4 * 64 * 4) + 3 * 64 * 4
    assert all(p.time_s > 0 for p in ra.results)
    assert ra.record.runtime == "torch-compile"
