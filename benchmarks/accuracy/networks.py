"""Whole networks in PyTorch, forward and training, on V100, T4, A100, H100 and workstation cards.

Networks in 16 bits ran under automatic mixed precision, which is captured with its casts. BERT was
fine-tuned with weights in fp16 and fp32 copies of them (apex, level O2), in fp32 with the script's
own optimizer, which updates parameter by parameter. Training steps were never fitted to, but for
how long the gradient of the weights of a grouped convolution takes. Of the forward passes of
NVIDIA DeepLearningExamples, EfficientNets gave the depthwise constant of the V100 in fp32, and
large batches the 16-bit convolutions of V100 and T4: those are refitted without the model. Their
times hold the script around the network, and their two servers are known: both are fitted by
benchmarks/hosts.py and stand here, not in the runtime. The same rows are scored once more with the
host time that gambrel expects beside such a GPU, the median of all published hosts.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.accuracy import Run, Score

from gambrel.analysis.estimate.constants import Calibration, packaged
from gambrel.analysis.queue import behind
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, MachineTimes, Workbench, answered
from gambrel.device import catalog
from gambrel.ops import Conventions

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fit_half as half
import fit_rocm as rocm

RUNTIMES = {"eager": "pytorch", "compiled": "torch-compile"}
BERT = {"bert-base": (768, 12, 12), "bert-large": (1024, 24, 16)}
CONVOLUTIONAL = "convolutional networks"
#: Networks of timm with attention or layer norms.
NORMED = (
    "vit", "deit", "beit", "swin", "twins", "pvt", "pit", "levit", "xcit", "crossvit", "coatnet",
    "mobilevit", "poolformer", "mixer", "resmlp", "gmlp", "convnext",
)  # fmt: skip
#: Publications of DeepLearningExamples, and their server by GPU.
SCRIPTED = ("resnet50v1.5", "se-resnext101-32x4d", "resnext101-32x4d", "efficientnet")
SERVERS = {
    "v100-sxm2-32gb": "Xeon E5-2698 v4",
    "t4": "Xeon E5-2698 v4",
    "a100-sxm4-80gb": "EPYC 7742",
}
#: By benchmarks/hosts.py: seconds per launch, and launches that the script around a forward pass is
#: worth (loss, accuracy, three figures that it waits for, the next batch).
SERVER_S = {"Xeon E5-2698 v4": 39.7e-6, "EPYC 7742": 24.1e-6}
SCRIPT_LAUNCHES = 87
#: By phase, and of forward passes by whether they are in 16 bits.
UNFITTED = "no training step fitted"
TRAINING = "one constant fitted"
HALF = "leave one model out; server and script fitted"
WIDE = "server, script and one constant fitted"
UNKNOWN = "script fitted; host: median of all published"
#: Cards of 2017 and 2018, with the convolutions of V100 and P100.
CARDS = "pytorch-gpu-benchmark"
CARRIED = "no row fitted; kin chosen with them"
#: A Blackwell card of 300 W, with the constants of an RTX 5090.
MAX_Q = "timm-2026"
KIN = "no row of the card fitted"
#: PyTorch 1.12, and one GPU whose products were fitted to these rows.
ENCODER = "bert-base-encoder"
OLD = "its host is one of seven of the median"
OLD_AMD = "host and share of products fitted"


def score(_folder: Path) -> Iterable[Score]:
    """By phase, kind of network and precision."""
    found: dict[tuple[str, str], list[Run]] = {}
    with half.NETWORKS.open(newline="") as file:
        for row in csv.DictReader(file):
            family, answer = _family(row), answer_of(row)
            found.setdefault((family, _held_out(family, row["phase"])), []).append(
                run_of(row, answer, SERVER_S.get(host_of(row)))
            )
            if scripted(row):
                found.setdefault((f"{family}, host unknown", UNKNOWN), []).append(
                    run_of(row, answer)
                )
    for (family, held), runs in found.items():
        target = "10 %" if "fp32" in family and held != UNKNOWN else ""
        yield Score(what=family, runs=runs, held_out=held, family=family, target=target)


def scripted(row: dict[str, str]) -> bool:
    """Whether the time of a row holds the script around a forward pass."""
    return row["source"] in SCRIPTED and row["phase"] == "inference"


def host_of(row: dict[str, str]) -> str:
    """The server of a row; its publication where that names none."""
    return SERVERS[row["device"]] if scripted(row) else row["source"]


def _held_out(family: str, phase: str) -> str:
    if "1.12" in family:
        return OLD_AMD if "MI250" in family else OLD
    if "cards" in family:
        return CARRIED
    if "Max-Q" in family:
        return KIN
    if phase == "training":
        grouped = "convolutional" in family and "fp32" not in family
        return TRAINING if grouped else UNFITTED
    return WIDE if "fp32" in family else HALF


def _family(row: dict[str, str]) -> str:
    phase = "training step" if row["phase"] == "training" else "forward"
    if row["source"] == rocm.SOURCE:
        where = "a die of an MI250" if row["device"] == "mi250" else "A100"
        kind = "BERT's encoder" if row["model"] == ENCODER else "ResNet-50"
        return f"PyTorch 1.12 eager, forward, {kind} in fp16, {where}"
    precision = "16 bits" if row["precision"] == "fp16" else "fp32 and TF32"
    where = {CARDS: ", cards of 2017 and 2018", MAX_Q: ", RTX PRO 6000 Max-Q"}
    return (
        f"PyTorch {row['runtime']}, {phase}, {_kind(row['model'])}, {precision}"
        f"{where.get(row['source'], '')}"
    )


def _kind(model: str) -> str:
    """A network with layer norms is no plain convolutional one: casts surround them."""
    if model in BERT:
        return "BERT"
    return "transformers, mixers, ConvNeXt" if model.startswith(NORMED) else CONVOLUTIONAL


def answer_of(row: dict[str, str]) -> MachineTimes:
    """What gambrel says of a published row."""
    batch = int(row["batch"])
    own = row["phase"] == "inference" and row["source"] != rocm.SOURCE
    without = row["model"] if own else ""
    size, narrow = int(row["size"]), row["precision"] == "fp16"
    runtime = RUNTIMES[row["runtime"]]
    machine = _machine(row["device"], None if narrow else row["precision"], without, runtime)
    if row["source"] == rocm.SOURCE:
        bench = plain(row["model"], batch, size)
    else:
        bench = workbench(row["model"], batch, size, row["layout"], row["phase"], narrow)
    return answered(bench, machine, machine.settings)


def run_of(row: dict[str, str], found: MachineTimes, per_launch_s: float | None = None) -> Run:
    """A row beside its answer; ``per_launch_s`` is that of its server, where it is known."""
    batch = int(row["batch"])
    value, low, high = _times(row, found, per_launch_s)
    return Run(
        name=f"{row['device']} {row['model']} {row['precision']} {batch}",
        measured=batch / float(row["per_s"]),
        expected=value,
        low=low,
        high=high,
        roofline=found.held.time_s,
        sol=found.sol_time_s,
    )


def _times(
    row: dict[str, str], found: MachineTimes, per_launch_s: float | None
) -> tuple[float | None, float | None, float | None]:
    """Expected time with what the row holds besides the network, and its range, s."""
    whole = found.expected.total
    if whole is None:
        return None, None, None
    host = found.runtime.host_on(catalog.load(row["device"])) if scripted(row) else None
    if host is None:
        return whole.value, whole.low, whole.high
    value = whole.value if per_launch_s is None else beside(found, per_launch_s) + host.per_run_s
    return (
        value + SCRIPT_LAUNCHES * (per_launch_s or host.per_launch_s),
        whole.low + SCRIPT_LAUNCHES * host.low_s,
        whole.high + SCRIPT_LAUNCHES * host.high_s,
    )


def beside(found: MachineTimes, per_launch_s: float) -> float:
    """Expected time where a host needs so long for each launch, s."""
    items = zip(found.expected.items, found.held.times, strict=True)
    each = [(t or 0.0, 0.0) if one is None else (one.value, one.idle_start_s) for one, t in items]
    state = (0.0, 0.0)
    for times, handed in found.table.queue:
        rows = [(each[i][0], launches, each[i][1]) for i, launches in handed]
        state = behind(state, rows, times, per_launch_s)
    return float(state[1])


@cache
def _machine(device: str, precision: str | None, without: str, runtime: str) -> Machine:
    """``precision`` is None for what the model was captured in."""
    calibration = _left_out(device, without) if without and precision is None else packaged()
    settings = Settings(precision=precision, runtime=runtime, calibration=calibration)
    return Machine(catalog.load(device), settings)


def _left_out(device: str, model: str) -> Calibration:
    """The packaged constants, 16-bit convolutions of a V100 or T4 fitted without a model."""
    shipped = packaged()
    rows = [r for r in half.older_rows() if r.device == device]
    others = [r for r in rows if r.problem.name.split()[0] != model]
    if len(others) in (0, len(rows)):
        return shipped
    form = "torch_convolution"
    fresh = half.fit(others)[form]
    replaced = tuple(
        msgspec.structs.replace(s, constants=fresh)
        if (s.form, s.device, s.formats) == (form, device, ("half",))
        else s
        for s in shipped.sets
    )
    return msgspec.structs.replace(shipped, sets=replaced)


@cache
def workbench(
    model: str, batch: int, size: int, layout: str, phase: str, narrow: bool
) -> Workbench:
    """A network as it was timed."""
    import torch

    from gambrel.capture.torch import capture, ensure_torchvision

    ensure_torchvision()
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        # timm of 2022, whose training steps these are, spelled attention out.
        _attention(fused=phase != "training")
        module, inputs = _bert(model, batch, size) if model in BERT else _timm(model, batch, size)
        if layout == "nhwc":
            module = module.to(memory_format=torch.channels_last)
            inputs = {k: x.to(memory_format=torch.channels_last) for k, x in inputs.items()}
        train = phase == "training"
        module = module.train(train)
        if model not in BERT:
            optimizer, autocast = None, "fp16" if narrow else None
        elif narrow:
            module, optimizer, autocast = module.half(), _master_adam(), None
            inputs["attention_mask"] = inputs["attention_mask"].half()
        else:
            optimizer, autocast = _bert_adam(), None
        workload = capture(
            module, kwargs=inputs, train=train, optimizer=optimizer, autocast=autocast
        )
    return Workbench(workload, {}, Conventions())


@cache
def plain(model: str, batch: int, size: int) -> Workbench:
    """A network with weights and inputs in fp16, without automatic mixed precision."""
    if model == ENCODER:
        return rocm.encoder(batch, size)
    import torch

    from gambrel.capture.torch import capture, ensure_torchvision

    ensure_torchvision()
    with torch.device("meta"):
        module, inputs = _timm(model, batch, size)
        inputs = {k: x.half() for k, x in inputs.items()}
        return Workbench(capture(module.eval().half(), kwargs=inputs), {}, Conventions())


def _attention(*, fused: bool) -> None:
    from timm.layers import set_fused_attn

    set_fused_attn(fused)


def _timm(model: str, batch: int, size: int) -> tuple[Any, dict[str, Any]]:
    import timm
    import torch

    return timm.create_model(model), {"x": torch.empty(batch, 3, size, size)}


def _bert(model: str, batch: int, length: int) -> tuple[Any, dict[str, Any]]:
    import torch
    import transformers

    hidden, layers, heads = BERT[model]
    config = transformers.BertConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        attn_implementation="eager",
    )
    ids = torch.zeros(batch, length, dtype=torch.long)
    places = torch.zeros(batch, dtype=torch.long)
    mask = torch.zeros(batch, 1, 1, length)  # the script adds it in every layer
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids}
    inputs |= {"start_positions": places, "end_positions": places}
    module = transformers.BertForQuestionAnswering(config)
    for layer in module.bert.encoder.layer:
        layer.intermediate = _spelled_out(hidden)
    return module, inputs


def _spelled_out(hidden: int) -> Any:
    """A layer's first product as the script has it: the bias and each step of the GELU are ops."""
    import torch

    class Intermediate(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(4 * hidden, hidden))
            self.bias = torch.nn.Parameter(torch.empty(4 * hidden))

        def forward(self, x: Any) -> Any:
            y = self.bias + torch.nn.functional.linear(x, self.weight)
            return y * 0.5 * (1.0 + torch.erf(y / 2**0.5))

    return Intermediate()


@cache
def _bert_adam() -> Any:
    """What the script does after the backward in fp32: clips, updates op by op, clears."""
    import torch

    class BertAdam(torch.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {})

        def step(self, _closure: Any = None) -> None:
            with torch.no_grad():
                grads = [p.grad for p in self.param_groups[0]["params"]]
                torch._foreach_norm(grads)
                torch._foreach_mul_(grads, 0.5)
                for p in self.param_groups[0]["params"]:
                    self._update(p, p.grad)

        def _update(self, p: Any, grad: Any) -> None:
            # Cleared rather than freed, so that the next backward adds to it.
            grad.zero_().add_(grad)
            state = self.state[p]
            if not state:
                state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
            state["m"].mul_(0.9).add_(grad, alpha=0.1)
            state["v"].mul_(0.999).addcmul_(grad, grad, value=0.001)
            update = state["m"] / (state["v"].sqrt() + 1e-6)
            update += 0.01 * p
            p.add_(-(1e-5 * update))

    return BertAdam


@cache
def _master_adam() -> Any:
    """The optimizer of the script in fp16: fused kernels on fp32 copies."""
    import torch

    class MasterAdam(torch.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {})

        def step(self, _closure: Any = None) -> None:
            with torch.no_grad():
                self._update(self.param_groups[0]["params"])

        def _update(self, params: list[Any]) -> None:
            masters, first, second = (self._kept(params, name) for name in ("p", "m", "v"))
            grads = [p.grad.float() for p in params]
            torch._foreach_norm(grads)
            torch._foreach_mul_(grads, 0.5)
            steps = [torch.ones(())] * len(params)
            torch._fused_adamw_(
                masters, grads, first, second, [], steps, lr=1e-5, beta1=0.9, beta2=0.999,
                weight_decay=0.01, eps=1e-6, amsgrad=False, maximize=False,
            )  # fmt: skip
            torch._foreach_copy_(params, masters)

        def _kept(self, params: list[Any], name: str) -> list[Any]:
            for p in params:
                if name not in self.state[p]:
                    self.state[p][name] = torch.empty_like(p, dtype=torch.float32)
            return [self.state[p][name] for p in params]

    return MasterAdam
