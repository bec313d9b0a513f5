"""What must hold of every model under every runtime: traffic falls with fusion, times are ordered.

By default each model meets a few of the devices; all of them with ``--all-differential``.
"""

from dataclasses import replace

import pytest

from gambrel.analysis.fusion import Allowance
from gambrel.analysis.plan import KernelPlan
from gambrel.analysis.settings import Settings, is_language_model
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.capture.zoo import list_models, load
from gambrel.device.lookup import find
from gambrel.runtimes import Kernels, on_device

DEVICES = (
    "a100-sxm4-80gb",
    "h100-sxm5-80gb",
    "l4",
    "mi300x",
    "jetson-agx-orin-64gb",
    "jetson-orin-nano-8gb",
    "snapdragon-8-gen-3",
    "rk3588-npu",
    "hailo-8",
    "coral-edge-tpu",
    "tpu-v5e",
    "epyc-9654",
)
#: Models with more ops are left to the full run.
OPS = 1500
#: From the most traffic to the least.
PLANS = (
    KernelPlan(kernels=Kernels.OP),
    KernelPlan(kernels=Kernels.POINTWISE),
    KernelPlan(kernels=Kernels.EPILOGUE),
    KernelPlan(kernels=Kernels.TILED, allowance=Allowance(group_bytes=1_000_000)),
    KernelPlan(
        kernels=Kernels.TILED, allowance=Allowance(group_bytes=40_000_000, free_scores=True)
    ),
    KernelPlan(kernels=Kernels.WHOLE),
)
#: Rounding, on the safe side.
ABOUT = 1 + 1e-9


def pytest_generate_tests(metafunc):
    everything = metafunc.config.getoption("--all-differential")
    cases = []
    for position, model in enumerate(list_models()):
        few = [DEVICES[(position * 5 + 3 * i) % len(DEVICES)] for i in range(3)]
        cases.append(pytest.param(model.name, DEVICES if everything else few, id=model.name))
    metafunc.parametrize(("name", "devices"), cases)


@pytest.fixture
def workload(name, request):
    found = load(name)
    if len(found.ops) > OPS and not request.config.getoption("--all-differential"):
        pytest.skip("a large model; see --all-differential")
    return found


def traffic(table):
    return sum((i.cost.read_bytes + i.cost.write_bytes) * i.count for i in table.items)


def test_traffic_falls_the_more_is_fused(workload, name, devices):
    bench = Workbench(workload, workload.resolve_symbols({}), Settings().conventions)
    precision = "fp16"
    moved = [traffic(bench.table(precision, plan)) for plan in PLANS]
    assert moved == sorted(moved, reverse=True)
    patterns = KernelPlan(kernels=Kernels.FUNCTION)
    assert moved[0] >= traffic(bench.table(precision, patterns)) >= moved[-1]


def test_no_time_is_below_the_speed_of_light(workload, name, devices):
    """SOL ≤ roofline, SOL ≤ low ≤ expected ≤ high; and expected ≥ roofline without prefetch."""
    bench = Workbench(workload, workload.resolve_symbols({}), Settings().conventions)
    language = is_language_model(workload)
    for device in devices:
        machine = Machine(find(device).device, Settings())
        for runtime in on_device(machine.device, language=language):
            found = answered(bench, machine, replace(Settings(), runtime=runtime.id))
            sol, roof, expected = found.sol_time_s, found.held.time_s, found.expected.total
            said = f"{name} on {device} under {runtime.id}"
            if sol is not None and roof is not None:
                assert sol <= roof * ABOUT, said
            if expected is None:
                continue
            assert expected.low <= expected.value <= expected.high, said
            assert sol is None or sol <= expected.low * ABOUT, said
            prefetches = runtime.residency is not None and runtime.residency.prefetch
            if roof is not None and not prefetches:
                assert roof <= expected.value * ABOUT, said
