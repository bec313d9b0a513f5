"""Pipelines as one workload: sums of parts, sizes in the whole's symbols, refusals."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.result import Analysis
from gambrel.capture import pipelines, zoo
from gambrel.capture.resolve import Request, resolve_model
from gambrel.device.resolve import resolve_hardware
from gambrel.errors import CaptureError, InputError, WorkloadError
from gambrel.llm.pipelines import Part, compose, with_fixed
from gambrel.llm.pipelines.catalog import PIPELINES
from gambrel.llm.pipelines.compose import substituted
from gambrel.workload import Op, Role, Symbol, Tensor, Workload
from gambrel.workload.symbols import evaluate, parse

H100 = resolve_hardware("h100-sxm5-80gb")[0]


def linear(name: str = "m", dtype: str = "fp32") -> Workload:
    """batch x side² rows times an 8 x 4 matrix."""
    rows = "batch*side^2"
    return Workload(
        name=name,
        dtype=dtype,
        tensors=(
            Tensor(shape=(rows, 8), dtype=dtype, storage=0, role=Role.INPUT),
            Tensor(shape=(4, 8), dtype=dtype, storage=1, role=Role.WEIGHT, name="w"),
            Tensor(shape=(rows, 4), dtype=dtype, storage=2, role=Role.OUTPUT),
        ),
        ops=(
            Op(
                kind="matmul",
                inputs=(0, 1),
                outputs=(2,),
                sizes={"m": rows, "n": 4, "k": 8},
                module="fc",
            ),
        ),
        outputs=(2,),
        symbols=(
            Symbol(name="batch", default=1),
            Symbol(name="side", default=2, minimum=2, maximum=8),
        ),
        assumptions=("stated.",),
    )


def whole(steps: int = 5) -> Workload:
    return compose(
        "p",
        (
            Part(name="text", workload=linear(), sizes={"batch": "2*batch"}),
            Part(
                name="net",
                workload=linear(),
                times=steps,
                sizes={"batch": "2*batch", "side": "1/8*image"},
            ),
            Part(name="end", workload=linear(), sizes={"side": 3}),
        ),
        symbols=(
            Symbol(name="batch", default=1),
            Symbol(name="image", default=32, minimum=16, multiple_of=8),
        ),
        assumptions=("first.",),
    )


def run(workload: Workload, **sizes: int) -> Analysis:
    return analyze(workload, H100, Settings(precision="fp32", sizes=sizes))


def test_the_whole_is_the_sum_of_its_parts() -> None:
    found = run(whole(), batch=3, image=40)
    # 2·m·n·k = 64 FLOP a row. text: 6 x 4 rows; net: 5 steps of 6 x 25 rows; end: 1 x 9 rows,
    # whose batch is not the whole's.
    assert found.total.matrix_flops == 64 * (24 + 5 * 150 + 9)
    names = {g.name: (g.count, g.measures.matrix_flops) for g in found.by_module}
    assert names == {"text": (1, 64 * 24), "net": (5, 64 * 750), "end": (1, 64 * 9)}
    # Each reads rows x 8, its weights of 32 and writes rows x 4 values, 4 bytes each.
    assert found.total.traffic_bytes == 4 * ((12 * 24 + 32) + 5 * (12 * 150 + 32) + (12 * 9 + 32))


def test_weights_are_there_once_however_often_they_run() -> None:
    found = run(whole(steps=100))
    assert found.model.parameters == 3 * 32
    assert found.footprint.weights_bytes == 3 * 32 * 4


def test_parts_do_not_share_memory_and_only_ends_are_inputs_and_outputs() -> None:
    composed = whole()
    assert len({t.storage for t in composed.tensors}) == 9
    assert [t.role for t in composed.tensors if t.role is not Role.WEIGHT] == [
        Role.INPUT,
        Role.ACTIVATION,
        Role.ACTIVATION,
        Role.ACTIVATION,
        Role.ACTIVATION,
        Role.OUTPUT,
    ]
    assert composed.outputs == (2, 5, 8)
    assert composed.assumptions == ("first.", "text: stated.", "net: stated.", "end: stated.")


@pytest.mark.parametrize(
    ("parts", "error", "sentence"),
    [
        ((), InputError, r"p: a pipeline needs at least one part"),
        (
            (Part(name="a", workload=linear()), Part(name="a", workload=linear())),
            InputError,
            r"two parts are called 'a'",
        ),
        ((Part(name="a", workload=linear(), times=0),), InputError, r"a runs 0 times; give 1 to"),
        (
            (Part(name="a", workload=linear()), Part(name="b", workload=linear(dtype="bf16"))),
            WorkloadError,
            r"b is in bf16 and a in fp32; capture them in one number format",
        ),
        (
            (Part(name="a", workload=linear(), sizes={"seq": 1}),),
            WorkloadError,
            r"a has no size 'seq'; it has batch, side",
        ),
        (
            (Part(name="a", workload=linear(), sizes={"side": 9}),),
            WorkloadError,
            r"side=9: this model takes at least 2 and at most 8",
        ),
    ],
)
def test_refused(parts: tuple[Part, ...], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        compose("p", parts)


@pytest.mark.parametrize(
    ("text", "values", "found"),
    [
        ("4*batch*latent^2", {"batch": "2*batch", "latent": "1/8*image"}, "1/8*batch*image^2"),
        ("1/2*latent^2 + latent", {"latent": 16}, 144),
        ("batch + 1", {"batch": "2*batch - 1"}, "2*batch"),
        ("a*b", {"a": 3, "b": "c + 1"}, "3*c + 3"),
        ("batch - image", {"batch": "image"}, 0),
        (7, {"batch": 2}, 7),
        ("seq", {}, "seq"),
    ],
)
def test_substitution(text: str, values: dict[str, int | str], found: int | str) -> None:
    assert substituted(text, values) == found


@given(
    coefficients=st.lists(st.integers(-5, 5), min_size=3, max_size=3),
    scale=st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(3, 4)]),
    shift=st.integers(-3, 3),
    at=st.integers(1, 50).map(lambda n: 8 * n),
)
def test_substitution_is_evaluation(
    coefficients: list[int], scale: Fraction, shift: int, at: int
) -> None:
    a, b, c = coefficients
    inner = str(parse(f"{scale}*x + 0").__class__({(("x", 1),): scale, (): Fraction(shift)}))
    outer = parse("y").__class__({(("y", 2),): a, (("y", 1),): b, (): c}).as_dim()
    composed = substituted(outer, {"y": inner})
    value = scale * at + shift
    assert evaluate(composed, {"x": at}) == a * value**2 + b * value + c


def test_a_fixed_symbol() -> None:
    steps = Symbol(name="steps", default=50, maximum=1000)
    assert with_fixed(steps, None).default == 50
    chosen = with_fixed(steps, 4)
    assert (chosen.default, chosen.minimum, chosen.maximum) == (4, 4, 4)
    with pytest.raises(WorkloadError, match=r"steps=1001: this model takes at least 1 and at most"):
        with_fixed(steps, 1001)


# The built-in ones


@pytest.mark.parametrize("name", PIPELINES)
def test_built_in_pipelines_are_whole(name: str) -> None:
    pipeline = PIPELINES[name]
    workload = pipelines.load(pipeline, {}, None)
    found = analyze(workload, H100, Settings())
    assert found.total.matrix_flops == pipeline.flops
    assert found.coverage == 1.0
    assert not found.unmodelled
    assert {g.name for g in found.by_module} == {c.name for c in pipeline.components}
    # The same parts by themselves, at the sizes that the pipeline runs them at.
    entries = {c.entry: zoo.find(c.entry)[0].parameters for c in pipeline.components}
    assert pipeline.parameters == sum(entries.values())
    assert 0.99 * pipeline.parameters <= found.model.parameters <= 1.001 * pipeline.parameters


def test_sdxl_by_hand() -> None:
    """Two texts through both encoders, 30 steps of two latents, one decoded image."""
    workload = resolve_model("stable-diffusion-xl", Request(sizes={"steps": 30})).workload
    found = analyze(workload, H100, Settings(sizes={"image": 1024}))

    def part(entry: str, **sizes: int) -> int:
        return analyze(zoo.load(entry), H100, Settings(sizes=sizes)).total.matrix_flops

    texts = part("clip-l-text", batch=2) + part("openclip-bigg-text", batch=2)
    unet = part("sdxl-unet", batch=2, latent=128)
    assert unet == 2 * part("sdxl-unet", batch=1, latent=128)
    image = part("sd15-vae-decoder", batch=1, latent=128)
    assert found.total.matrix_flops == texts + 30 * unet + image
    assert found.model.symbols == {"batch": 1, "image": 1024, "guidance": 2, "steps": 30}


@pytest.mark.parametrize("runtime", ["pytorch", "torch-compile", "tensorrt"])
def test_no_part_is_optimized_away(runtime: str) -> None:
    """The compiler of a part does not see that the next part reads what it yields."""
    workload = pipelines.load(PIPELINES["stable-diffusion-1.5"], {"steps": 3}, None)
    found = analyze(workload, H100, Settings(runtime=runtime))
    eager = analyze(workload, H100, Settings(runtime="pytorch"))
    assert found.total.matrix_flops == eager.total.matrix_flops
    assert found.total.traffic_bytes <= eager.total.traffic_bytes
    assert found.total.traffic_bytes > found.sol.traffic_bytes


def test_without_guidance_half_the_work() -> None:
    workload = resolve_model("sd15-pipeline", Request()).workload
    twice = analyze(workload, H100, Settings(sizes={"guidance": 2}))
    once = analyze(workload, H100, Settings(sizes={"guidance": 1}))
    of = {g.name: g.measures.matrix_flops for g in twice.by_module}
    for group in once.by_module:
        factor = 1 if group.name == "vae" else 2
        assert of[group.name] == factor * group.measures.matrix_flops


def test_published_sizes_of_parts() -> None:
    """Parameters as the model cards and papers give them, in units of their last digit."""
    sizes = {s.name: s.parameters for s in zoo.list_models()}
    assert round(sizes["clip-l-text"] / 1e6, 2) == 123.06
    assert round(sizes["openclip-bigg-text"] / 1e6, 2) == 694.66
    assert round(sizes["t5-xxl-encoder"] / 1e9, 2) == 4.76
    assert round(sizes["sd3-medium-transformer"] / 1e9, 1) == 2.0
    assert round(sizes["flux-transformer"] / 1e9, 1) == 11.9
    assert round(sizes["pixart-transformer"] / 1e9, 1) == 0.6


def test_flux_by_hand() -> None:
    """Multiply-accumulates of one step at 1024 pixels: 4,096 patches and 512 tokens of text."""
    d, image, text = 3072, 4096, 512
    tokens = image + text
    pairs = 2 * tokens * tokens * d  # scores and values, all heads
    double = tokens * (4 * d * d + 2 * 4 * d * d) + pairs + 2 * 6 * d * d
    single = tokens * (3 * d * d + 4 * d * d + 5 * d * d) + pairs + 3 * d * d
    ends = image * 64 * d * 2 + text * 4096 * d + 2 * d * d
    embeddings = 2 * (256 * d + d * d) + 768 * d + d * d  # time and guidance, pooled text
    macs = 19 * double + 38 * single + ends + embeddings
    found = analyze(zoo.load("flux-transformer"), H100, Settings())
    assert found.total.matrix_flops == 2 * macs


@pytest.mark.parametrize(
    ("name", "request_", "error", "sentence"),
    [
        (
            "sdxl-base",
            {"phase": "decode"},
            InputError,
            r"stable-diffusion-xl has no phase 'decode'",
        ),
        (
            "flux",
            {"sizes": {"seq": 5}},
            WorkloadError,
            r"flux-dev has no size 'seq'; it has batch,",
        ),
        ("flux", {"sizes": {"image": 100}}, WorkloadError, r"image=100: this model takes at least"),
        ("flux", {"sizes": {"image": 1000}}, WorkloadError, r"multiples of 64; nearest: 960, 1024"),
        ("flux", {"sizes": {"guidance": 2}}, WorkloadError, r"has no size 'guidance'"),
        ("sd3", {"sizes": {"guidance": 1}}, WorkloadError, r"guidance=1: this model takes at lea"),
        ("sdxl-base", {"train": True}, CaptureError, r"stable-diffusion-xl is an inference"),
    ],
)
def test_refused_questions(
    name: str, request_: dict[str, object], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        resolve_model(name, Request(**request_))  # type: ignore[arg-type]


def test_names_of_pipelines_are_no_names_of_entries() -> None:
    for pipeline in PIPELINES.values():
        for name in (pipeline.name, *pipeline.aliases):
            assert pipelines.find(name) is pipeline
    for entry in zoo.list_models():
        for name in (entry.name, *entry.aliases):
            assert pipelines.find(name) is None, name


def test_a_pipeline_needs_no_torch() -> None:
    program = (
        "import sys, gambrel; gambrel.analyze('stable-diffusion-xl', 'h100', image=1024, "
        "sizes={'steps': 30}); print(sorted({'torch', 'diffusers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_several_batches_and_steps_in_one_question() -> None:
    import gambrel

    found = gambrel.analyze("sd15-pipeline", "h100", batch_size=4, image=512, sizes={"steps": 20})
    single = gambrel.analyze("sd15-pipeline", "h100", batch_size=1, image=512, sizes={"steps": 20})
    assert found.total.matrix_flops == 4 * single.total.matrix_flops


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("sdxl", "stable-diffusion-xl"),
        ("Stable Diffusion XL", "stable-diffusion-xl"),
        ("stabilityai/stable-diffusion-xl-base-1.0", "stable-diffusion-xl"),
        ("stable diffusion", "stable-diffusion-1.5"),
        ("runwayml/stable-diffusion-v1-5", "stable-diffusion-1.5"),
        ("stabilityai/stable-diffusion-3.5-large", "stable-diffusion-3.5-large"),
        ("SD3.5", "stable-diffusion-3.5-large"),
        ("FLUX", "flux-dev"),
        ("black-forest-labs/FLUX.1-schnell", "flux-schnell"),
    ],
)
def test_a_generator_is_meant_by_its_usual_name_in_every_face(written: str, name: str) -> None:
    """One step of its network has a name of its own; nobody types ``sdxl`` for that."""
    from gambrel.chat.names import names

    found = pipelines.find(written)
    assert found is not None
    assert found.name == name
    if "/" not in written:
        said = names().find(written.lower())
        assert said is not None
        assert said.name == name
