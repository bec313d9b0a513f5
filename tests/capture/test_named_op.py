"""An op by its name and sizes."""

import pytest

from gambrel.capture.named_op import named_op
from gambrel.errors import InputError, UnknownNameError


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


def test_other_names_are_refused():
    with pytest.raises(UnknownNameError, match=r"unknown size of .* 'side'"):
        named_op("matmul:m=2,n=3,k=5,side=4")
