"""Times on ST's NPU that its model zoo publishes."""

import statistics

import pytest

import gambrel
from gambrel.device.lookup import find
from gambrel.errors import InputError
from gambrel.runtimes import choose, on_device
from tests.analysis.estimate.published import answers, error, inside


@pytest.fixture(scope="module")
def fitted():
    return answers("stm32n6/networks.csv")


@pytest.fixture(scope="module")
def older():
    return answers("stm32n6/release_2.csv")


@pytest.fixture(scope="module")
def outside():
    return answers("stm32n6/external_ram.csv")


def test_no_run_is_faster_than_the_speed_of_light(fitted, older, outside):
    assert all(found.sol_time_s <= measured for found, measured in (*fitted, *older, *outside))


def test_no_run_is_faster_than_the_roofline(fitted, older, outside):
    rows = (*fitted, *older, *outside)
    assert all(found.roofline_time_s <= measured for found, measured in rows)


def test_nine_of_ten_runs_are_inside_the_range(fitted):
    assert len(fitted) == 37
    assert statistics.fmean(inside(*row) for row in fitted) >= 0.9


def test_half_of_the_runs_are_within_a_tenth(fitted):
    assert statistics.median(error(*row) for row in fitted) < 0.1


def test_the_older_release_to_which_nothing_is_fitted_is_inside(older):
    assert len(older) == 18
    assert statistics.fmean(inside(*row) for row in older) >= 0.9


def test_activations_outside_the_chip_take_longer(outside):
    assert all(measured > 1.5 * found.expected_time_s.value for found, measured in outside)


def test_one_publisher_means_low_confidence(fitted):
    assert {found.expected_time_s.confidence for found, _ in fitted} == {"low"}


def test_the_last_layer_is_read_at_the_rate_of_the_flash():
    """With 101 instead of 1,000 classes MobileNetV1 takes 16.36 instead of 18.81 ms.

    Source: STMicroelectronics/stm32ai-modelzoo @7f3764d5 image_classification/mobilenetv1, food101.
    """
    found = gambrel.analyze("mobilenet-v1", "stm32n6")
    classifier = next(op for op in found.ops if op.kind == "matmul")
    saved = classifier.measures.expected_time_s.value * (1 - 101 / 1000)
    assert saved == pytest.approx(18.81e-3 - 16.36e-3, rel=0.1)


def test_activations_that_leave_the_chip_widen_the_range():
    small, large = (
        gambrel.analyze("yolov8n", "stm32n6", sizes={"image": side}).expected_time_s
        for side in (416, 640)
    )
    assert small.high / small.value < 2
    assert large.high / large.value == pytest.approx(3.5)
    assert "leave the chip" in large.reason
    assert "leave the chip" not in small.reason


def test_the_name_of_the_code_generator_means_the_compiler_of_the_npu_there():
    npu, core = find("stm32n6570-dk").device, find("stm32h7a3").device
    assert choose(npu).runtime.id == choose(npu, "st-edge-ai").runtime.id == "st-neural-art"
    assert choose(core, "st-edge-ai").runtime.id == "stm32cube-ai"
    assert [r.id for r in on_device(npu) if r.id.startswith("st")] == ["st-neural-art"]


def test_a_format_of_16_bits_is_refused():
    with pytest.raises(InputError, match="takes int8"):
        gambrel.analyze("mobilenet-v2", "stm32n6", precision="fp16")


def test_softmaxes_and_norms_on_the_processor_widen_the_range():
    found = gambrel.analyze("deit-t", "stm32n6").expected_time_s
    assert found.high / found.value == pytest.approx(9)
    assert found.confidence == "low"
