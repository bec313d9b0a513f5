"""A measured time against the limits of a device: rulings, scores, bounds, by hand."""

import math

import msgspec
import pytest

import gambrel
from gambrel.advise.judge.io_bounds import io_bound
from gambrel.advise.judge.records import Ruling
from gambrel.analysis.question import ask
from gambrel.api import judging
from gambrel.cli import run
from gambrel.errors import InputError, UnknownNameError
from gambrel.ops import OpView
from gambrel.ops.base import TensorView

GEMM = "matmul:m=4096,n=4096,k=4096,bf16"
#: 2 * 4096^3 FLOP over the 989.4 TFLOP/s of an H100 SXM in bf16.
LIGHT_S = 2 * 4096**3 / 989.4e12


def test_the_speed_of_light_of_a_product_is_its_work_over_the_peak():
    found = gambrel.judge(GEMM, "250us", "h100")
    assert found.limits.sol_time_s == pytest.approx(LIGHT_S, rel=1e-3)
    assert found.limits.traffic_bytes == 3 * 4096 * 4096 * 2
    assert found.score == pytest.approx(LIGHT_S / 250e-6, rel=1e-3)
    assert found.headroom_s == pytest.approx(250e-6 - LIGHT_S, rel=1e-3)


@pytest.mark.parametrize(
    ("time_s", "ruling"),
    [
        (LIGHT_S / 2, Ruling.IMPOSSIBLE),
        (LIGHT_S * 0.95, Ruling.AT_LIMIT),  # within what a clock may be above the datasheet's
        (LIGHT_S * 1.1, Ruling.AT_LIMIT),
        (200e-6, Ruling.LIBRARY),
        (2e-3, Ruling.HEADROOM),
    ],
)
def test_rulings_of_one_product(time_s, ruling):
    found = gambrel.judge(GEMM, time_s, "h100")
    assert found.ruling is ruling
    assert bool(found.causes) is (ruling is Ruling.IMPOSSIBLE)


def test_an_impossible_time_that_narrower_arithmetic_would_explain_says_so():
    found = gambrel.judge("matmul:m=8192,n=8192,k=8192,fp32", 2 * 8192**3 / 900e12, "h100")
    assert found.ruling is Ruling.IMPOSSIBLE
    assert any("wrong precision: bf16" in cause for cause in found.causes)


def test_a_time_of_a_launch_that_nobody_waited_for_is_recognised():
    found = gambrel.judge(GEMM, 5e-6, "h100")
    assert found.causes[0].startswith("timing without synchronization")


def test_cold_caches_let_every_byte_cross_the_memory():
    """1 GiB in and out of fp32 at 2.039 TB/s; some of it may stay on chip between runs."""
    found = gambrel.judge("relu:n=268435456,fp32", 2e-3, "a100-sxm4-80gb")
    assert found.limits.cold_time_s == pytest.approx(2 * 2**30 / 2.039e12, rel=1e-3)
    assert found.limits.sol_time_s < found.limits.cold_time_s


def test_a_baseline_gives_the_share_of_the_gap_that_is_closed():
    found = gambrel.judge(GEMM, LIGHT_S * 1.5, "h100", baseline=LIGHT_S * 2)
    assert found.gap_closed == pytest.approx(0.5, rel=1e-2)


def test_a_part_of_a_model_has_its_share_of_the_whole():
    found = gambrel.judge("resnet50", "300us", "a100", op="layer1.0.conv2", batch_size=64)
    # 3x3, 64 to 64 channels, 56 x 56 positions.
    assert found.limits.matrix_flops == 2 * 64 * 64 * 64 * 9 * 56 * 56
    assert 0 < found.headroom_share < 1


def test_a_format_that_was_written_down_is_refused_where_nothing_runs_it():
    with pytest.raises(InputError, match="no runtime on hailo-8 runs bf16: HailoRT takes int8"):
        gambrel.judge("matmul:m=64,n=64,k=64,bf16", "1ms", "hailo-8")
    assert gambrel.judge("matmul:m=64,n=64,k=64", "1ms", "hailo-8").limits.precision == "int8"


def test_the_library_kernel_runs_the_format_that_was_written_down():
    """ONNX Runtime, which runs on processors as well, has no fp64."""
    assert judging.limits("matmul:m=64,n=64,k=64,fp64", hardware="epyc-9654").precision == "fp64"


def test_the_end_of_a_path_names_a_part_where_it_is_the_only_one():
    """The third stage alone has six blocks; 1024 to 256 channels, 14 x 14 positions."""
    found = judging.limits("resnet50", hardware="a100", op="5.conv1")
    assert found.matrix_flops == 2 * 1024 * 256 * 14 * 14
    with pytest.raises(
        InputError, match=r"16 ops 'conv2': layer1.0.conv2, .* and 4 more; name one"
    ):
        judging.limits("resnet50", hardware="a100", op="conv2")


def test_winograd_withholds_the_word_impossible_but_not_for_ever():
    conv = "conv:n=32,c=256,h=56,w=56,k=256,kernel=3,pad=1,fp16"
    light = gambrel.judge(conv, 1.0, "a100").limits
    assert light.caveats
    assert gambrel.judge(conv, light.sol_time_s / 2, "a100").ruling is Ruling.AT_LIMIT
    assert gambrel.judge(conv, light.floor_time_s / 2, "a100").ruling is Ruling.IMPOSSIBLE


def test_a_caveat_of_a_share_of_the_work_does_not_excuse_a_factor():
    """Convolutions of 3x3 are less than half of ResNet-50: at most 8/9 of them can be saved."""
    found = gambrel.judge("resnet50", 1e-6, "a100")
    assert found.ruling is Ruling.IMPOSSIBLE
    assert found.limits.sol_time_s / 2 < found.limits.floor_time_s < found.limits.sol_time_s
    assert "the fewest operations of any algorithm" in found.reason
    checked = gambrel.check("resnet50", hardware="a100", latency="1us")
    assert checked.constraints[0].proof == "sol"
    near = gambrel.check("resnet50", hardware="a100", latency="24us")
    assert near.constraints[0].proof == "expected"


def test_the_gap_adds_up_to_the_measured_time():
    question = ask("explain-gap", {"model": GEMM, "hardware": "h100", "time": "1ms"})
    found = judging.explain_gap.answer(question)
    assert math.isclose(sum(step.added_s for step in found.steps), 1e-3, rel_tol=1e-9)
    assert all(step.added_s > 0 for step in found.steps)
    assert found.next.startswith("this kernel")


def view(m, n, k, width="fp32"):
    shapes = [(m, k), (k, n), (m, n)]
    tensors = [
        TensorView(shape=s, dtype=width, elements=math.prod(s), storage=i)
        for i, s in enumerate(shapes)
    ]
    sizes = {"m": m, "n": n, "k": k}
    return OpView(kind="matmul", inputs=tuple(tensors[:2]), outputs=(tensors[2],), sizes=sizes)


def test_the_io_bound_of_a_product_by_hand():
    """1,024^3 on 4,096 words: 2^31 / 64 - 8,192 - 2^20 words of 4 bytes."""
    found = io_bound(view(1024, 1024, 1024), "mm", 4096 * 4)
    assert found.traffic_bytes == 4 * (2**31 // 64 - 2 * 4096 - 1024 * 1024)


def traffic_of_blocks(m, n, k, store):
    """Words that a blocked product moves: the best square block of C that fits beside a row."""
    best = math.inf
    for side in range(1, math.isqrt(store) + 1):
        if side * side + 2 * side <= store:
            blocks = math.ceil(m / side) * math.ceil(n / side)
            best = min(best, blocks * 2 * side * k + m * n)
    return best


@pytest.mark.parametrize(("m", "n", "k", "store"), [(64, 64, 64, 99), (200, 100, 300, 440)])
def test_no_blocked_product_moves_less_than_the_bound(m, n, k, store):
    found = io_bound(view(m, n, k), "mm", store * 4)
    assert found is not None
    assert found.traffic_bytes / 4 <= traffic_of_blocks(m, n, k, store)


@pytest.mark.parametrize(
    ("op", "flops", "traffic"),
    [
        ("matmul:m=2,n=3,k=5,fp16", 60, 2 * (10 + 15 + 6)),
        ("conv:n=1,c=2,h=4,w=4,k=3,kernel=3,fp32", 2 * 3 * 2 * 9 * 4, 4 * (32 + 54 + 12)),
        ("attention:heads=2,q=4,d=8,fp16", 2 * 2 * 16 * 16, 2 * 4 * 64),
        ("attention:heads=2,q=4,d=8,causal,fp16", 2 * 2 * 10 * 16, 2 * 4 * 64),
    ],
)
def test_named_ops_by_hand(op, flops, traffic):
    limits = judging.limits.answer(ask("limits", {"model": op, "hardware": "h100"}))
    assert (limits.matrix_flops, limits.traffic_bytes) == (flops, traffic)


@pytest.mark.parametrize(
    ("op", "error", "says"),
    [
        ("matmul:m=4096,n=4096", InputError, "needs k"),
        ("matmul:m=0,n=1,k=1", InputError, "whole number above 0"),
        ("matmul:m=1,n=1,k=1,q=2", UnknownNameError, "q"),
        ("matmull:m=1,n=1,k=1", UnknownNameError, "matmul"),
        ("conv:n=1,c=1,h=2,w=2,k=1,kernel=3", InputError, "larger than the padded image"),
    ],
)
def test_bad_ops_are_refused_in_one_sentence(op, error, says):
    with pytest.raises(error, match=says):
        gambrel.judge(op, 1e-3, "h100")


def test_one_source_of_a_time_is_needed():
    with pytest.raises(InputError, match="none was given"):
        gambrel.judge(GEMM, hardware="h100")


def test_peaks_of_ones_own_prove_what_they_say():
    found = gambrel.judge(GEMM, 1e-6, peak=989e12, bandwidth=3.35e12)
    assert found.ruling is Ruling.IMPOSSIBLE


def test_a_time_is_taken_from_a_recording(tmp_path):
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm_bf16", "pid": 0, "tid": 7}
    events = [kernel | {"ts": 400 * i, "dur": d, "args": {}} for i, d in enumerate((240, 250, 290))]
    path = tmp_path / "trace.json"
    path.write_bytes(msgspec.json.encode({"schemaVersion": 1, "traceEvents": events}))
    found = gambrel.judge(GEMM, hardware="h100", recording=str(path), kernel="gemm")
    assert found.measured_time_s == pytest.approx(250e-6)
    with pytest.raises(InputError, match="--kernel must name one"):
        gambrel.judge(GEMM, hardware="h100", recording=str(path), kernel="softmax")


def test_the_library_time_of_a_kernel_has_no_host_in_it():
    alone = gambrel.analyze("softmax:rows=512,cols=4096", "h100", runtime="pytorch")
    found = gambrel.judge("softmax:rows=512,cols=4096", "20us", "h100")
    assert alone.expected_time_s.host_s > 0
    assert found.limits.library_time_s < alone.expected_time_s.value
    assert found.limits.library_expected.host_s == 0


@pytest.mark.parametrize("beside", ["torch", "jax"])
def test_the_command_of_the_documentation_judges_code(tmp_path, monkeypatch, capsys, beside):
    pytest.importorskip("torch")
    pytest.importorskip(beside)  # a function of torch stays one where JAX is imported too
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_kernel.py").write_text(
        "import torch\n\ndef build():\n"
        "    return torch.nn.Linear(1024, 1024), torch.randn(256, 1024)\n\ndef function():\n"
        "    return (lambda x: torch.softmax(x, -1)), (torch.randn(8, 64),)\n"
    )
    words = ["judge", "my_kernel.py:build", "--hardware", "h100", "--time", "1.42ms"]
    assert run(words) == 0
    assert "HEADROOM" in capsys.readouterr().out
    words[1:2] = ["my_kernel.py:function"]
    assert run([*words, "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["limits"]["traffic_bytes"] == 2 * 8 * 64 * 4


def test_a_problem_of_kernelbench_runs_only_on_trust(tmp_path, capsys):
    pytest.importorskip("torch")
    (tmp_path / "1_Square.py").write_text(
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, a, b):\n"
        "        return a @ b\n\ndef get_inputs():\n"
        "    return [torch.rand(4096, 4096), torch.rand(4096, 4096)]\n\n"
        "def get_init_inputs():\n    return []\n"
    )
    words = ["judge", "--jsonl", str(tmp_path), "--hardware", "h100,a100", "--json"]
    assert run(words) == 2
    assert "--trust" in capsys.readouterr().err
    assert run([*words, "--trust"]) == 0
    rows = msgspec.json.decode(capsys.readouterr().out)["rows"]
    assert [row["matrix_flops"] for row in rows] == [2 * 4096**3] * 2
    assert run(["judge", f"{tmp_path}/1_Square.py", "-d", "h100", "--time", "3ms"]) == 2


def test_a_problem_that_names_the_gpu_is_read_without_one(tmp_path):
    pytest.importorskip("torch")
    from gambrel.capture.kernelbench import workload_of_problem

    path = tmp_path / "1_Add.py"
    path.write_text(
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, a, b, c):\n"
        "        return a + b + c\n\ndef get_inputs():\n"
        "    a = torch.rand(64, 64, device='cuda', dtype=torch.float16)\n"
        "    return [a, a.to('cuda:0'), torch.rand(64, 64).half().cuda()]\n\n"
        "def get_init_inputs():\n    return []\n"
    )
    found = judging.limits(str(path), hardware="h100", trust=True)
    # The first two are one tensor: moved to where it is, nothing is copied.
    assert found.traffic_bytes == 3 * 64 * 64 * 2
    assert found.precision == "fp16"
    assert len(workload_of_problem(path).ops) == 2


def test_a_time_is_compared_with_every_runtime_that_runs_there():
    """The baseline is the least of all candidates, not of the first two."""
    from gambrel.device.lookup import find
    from gambrel.runtimes import candidates

    device = find("rtx-4090").device
    found = gambrel.judge("resnet50", 6e-3, "rtx-4090").limits
    tried = [gambrel.analyze("resnet50", "rtx-4090", runtime=r.id) for r in candidates(device)]
    known = [a.expected_time_s for a in tried if a.expected_time_s is not None]
    certain = [e.value for e in known if e.confidence != "low"]
    assert len(known) > 2
    assert found.library_time_s == pytest.approx(min(certain), rel=1e-9)


@pytest.mark.parametrize("precision", ["q4_0", "q4_k_m"])
def test_blocks_are_compared_with_the_kernels_of_llama_cpp(precision):
    asked = {"phase": "decode", "precision": precision}
    found = gambrel.judge("llama-3.1-8b", 6e-3, "rtx-4090", **asked).limits
    own = gambrel.analyze("llama-3.1-8b", "rtx-4090", runtime="llama-cpp", **asked)
    assert found.library == "llama-cpp"
    assert found.library_time_s == pytest.approx(own.expected_time_s.value, rel=1e-9)
