"""Where most of a run is softmax at a rate of its own, the estimate says that it is less sure."""

import gambrel

#: Apple, ml-stable-diffusion: one step with guidance of Stable Diffusion 2.1 on an A15, s.
PUBLISHED_S = 0.395


def test_a_unet_with_long_rows_has_a_range_that_holds_the_published_time():
    run = gambrel.analyze("sd15-unet", "apple-a15", precision="fp16", batch_size=2)
    found = run.expected_time_s
    assert found.confidence == "low"
    assert found.low < PUBLISHED_S < found.high
    assert "short rows" in found.reason


def test_a_network_without_attention_is_as_sure_as_before():
    found = gambrel.analyze("mobilenet-v2", "apple-a15", precision="fp16").expected_time_s
    assert found.confidence == "medium"
    assert "short rows" not in found.reason
