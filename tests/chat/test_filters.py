"""Classes of devices that questions name."""

from gambrel.chat.filters import class_of, matching_devices
from gambrel.chat.sentence import parse
from gambrel.device.listing import Filter, list_rows


def test_accelerators_are_npus():
    """Makers call both NPUs: a Hailo and a Coral are among the best NPUs."""
    ids = {row.id for row in list_rows(Filter(category="npu"))}
    assert {"hailo-8", "coral-edge-tpu", "rk3588-npu", "snapdragon-8-elite", "gaudi-3"} <= ids
    assert not {"h100-sxm5-80gb", "xeon-8480+", "stm32f746"} & ids
    assert set(matching_devices(parse("best npu for resnet50"))) == ids


def test_a_class_is_written_as_such():
    assert class_of(matching_devices(parse("best npu for resnet50"))) == "category=npu"
    assert class_of([row.id for row in list_rows(Filter(vendor="hailo"))]) == "vendor=hailo"
    assert class_of(["h100-sxm5-80gb", "hailo-8"]) is None
