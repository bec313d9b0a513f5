"""An op by its name and sizes."""

import pytest

import gambrel
from gambrel.analysis.plan import KernelPlan
from gambrel.analysis.workbench import Workbench
from gambrel.capture.named_op import named_op
from gambrel.errors import InputError, UnknownNameError
from gambrel.ops import Conventions
from gambrel.ops.base import Engine
from gambrel.runtimes import Kernels


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (
            "attention:batch=4,heads=16,kv_heads=4,q=8,kv=16,d=64,dv=32,bf16",
            "attention:b=4,heads=16,kv_heads=4,q_len=8,kv_len=16,head_dim=64,v_head_dim=32,bf16",
        ),
        ("matmul:b=4,m=2,n=3,k=5", "matmul:batch=4,m=2,n=3,k=5"),
    ],
)
def test_sizes_have_the_names_of_the_table_of_ops_too(short, long):
    assert named_op(short).ops == named_op(long).ops


@pytest.mark.parametrize("text", ["matmul:m=2,m=3,n=3,k=5", "matmul:b=2,batch=3,m=2,n=3,k=5"])
def test_a_size_is_given_once(text):
    with pytest.raises(InputError, match="is given twice"):
        named_op(text)


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        # 6 FLOP of the recurrence and 2 of the read-out a token, channel and state value.
        ("selective_scan:batch=2,seq=8,channels=4,state=3", 8 * 2 * 8 * 4 * 3),
        # Three contractions and a decay with each state, and what is around them.
        ("delta_scan:seq=8,heads=2,key_dim=4,value_dim=3", 8 * 2 * (7 * 4 * 3 + 2 * 3 + 6 * 4 + 4)),
        ("wkv7_scan:seq=8,heads=2,key_dim=4,value_dim=3", 8 * 2 * 9 * 4 * 3),
    ],
)
def test_scans_have_the_work_of_their_formulas(text, flops):
    bench = Workbench(named_op(text), {}, Conventions())
    (item,) = bench.table("fp32", KernelPlan(kernels=Kernels.OP)).items
    work = item.cost.work.items()
    assert sum(n for (engine, _), n in work if engine is not Engine.SPECIAL) == flops


def test_a_scan_of_mamba_2_moves_its_states_between_kernels():
    """vllm-project/vllm pull request 27299: 1.268 ms on an H100, five kernels, not fitted."""
    text = "ssd_scan:seq=16384,heads=128,head_dim=64,state=128,groups=8,chunk=256,bf16"
    expected = gambrel.analyze(text, "h100", runtime="vllm").expected_time_s
    assert expected.low < 1.268e-3 < expected.high
    assert 0.5e-3 < expected.value < 2e-3


def test_an_unknown_op_is_answered_with_the_nearest_names():
    with pytest.raises(UnknownNameError) as raised:
        named_op("gelo:n=3")
    assert raised.value.closest[0] == "gelu"
    assert len(str(raised.value)) < 250


def test_other_names_are_refused():
    with pytest.raises(UnknownNameError, match=r"unknown size of .* 'side'"):
        named_op("matmul:m=2,n=3,k=5,side=4")
