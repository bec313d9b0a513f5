"""A kernel that is the whole model: the thought experiment `perfect`."""

import pytest

import gambrel


@pytest.mark.parametrize("device", ["a100", "jetson-orin-nano-8gb"])
def test_the_whole_kernel_is_no_faster_than_light(device):
    """The router's products in fp32 beside fp16 ones would run on two engines at once."""
    found = gambrel.analyze("deepseek-v3-prefill", batch_size=3, hardware=device, runtime="perfect")
    assert found.roofline_time_s == pytest.approx(found.sol_time_s, rel=1e-9)
    rows = [op.measures.roofline_time_s or 0.0 for op in found.ops]
    assert sum(rows) == pytest.approx(found.roofline_time_s, rel=1e-9)


def test_two_views_of_one_buffer_are_read_both():
    """DLRM gathers by two halves of one buffer of indices."""
    found = gambrel.analyze("dlrm", hardware="groq", runtime="perfect")
    assert found.total.traffic_bytes == found.sol.traffic_bytes
