"""Models that keep the channels of images last: on meta tensors as on a device."""

import torch

import gambrel


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 1),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 4, 3),
    )


def captured(*, last, train=False):
    layout = torch.channels_last if last else torch.contiguous_format
    with torch.device("meta"):
        model = network().to(memory_format=layout).train(train)
        image = torch.empty(2, 3, 16, 16).to(memory_format=layout)
    return gambrel.load_model(model, inputs=image, train=train)


def marked(workload, kind):
    return [bool(op.attrs.get("channels_last")) for op in workload.ops if op.kind == kind]


def test_a_layout_passes_through_the_model():
    """A pointwise kernel is the same in both layouts: it is not marked, and passes it on."""
    assert marked(captured(last=True), "convolution") == [True, False, True]
    assert marked(captured(last=False), "convolution") == [False, False, False]


def test_gradients_are_marked_with_pointwise_ones():
    last, first = (captured(last=last, train=True) for last in (True, False))
    assert marked(last, "convolution_backward") == [True, True, True]
    assert marked(first, "convolution_backward") == [False, False, False]


def test_counts_are_the_same():
    last, first = (gambrel.analyze(captured(last=last), "a100") for last in (True, False))
    assert last.flops == first.flops
    assert last.roofline_time_s == first.roofline_time_s


def test_results_lie_as_they_do_when_the_model_runs():
    seen = []
    model = network().to(memory_format=torch.channels_last).eval()
    for layer in model:
        layer.register_forward_hook(lambda _, __, y: seen.append(y.stride()))
    image = torch.zeros(2, 3, 16, 16).to(memory_format=torch.channels_last)
    with torch.no_grad():
        model(image)
    ran, seen[:] = list(seen), []
    gambrel.load_model(model, inputs=image)
    assert seen == ran


def test_images_that_come_last_into_other_weights_are_turned():
    with torch.device("meta"):
        model, image = network(), torch.empty(2, 3, 16, 16)
    found = gambrel.load_model(model, inputs=image.to(memory_format=torch.channels_last))
    assert marked(found, "convolution") == [False, False, False]
