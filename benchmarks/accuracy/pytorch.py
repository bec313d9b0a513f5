"""PyTorch on GPUs: KernelBench, single fp32 ops, whole fp32 models, recurrent layers.

Constants are refitted with the scored rows left out; only which formulas there are was chosen with
all rows in view. Ranges are those that gambrel ships.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.accuracy import Run, Score

from gambrel.analysis.estimate.constants import Calibration, packaged
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.device import catalog
from gambrel.ops import Conventions

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import calibration_ops as ops
import calibration_torch as bench
import calibration_torch_sets as sets
import fit_half as half

#: Whose constants a GPU is asked with when its own rows are left out.
NEXT_OF_KIN = {
    "v100-pcie-32gb": "a100-pcie-40gb",
    "a100-pcie-40gb": "v100-pcie-32gb",
    "t4": "p4-8gb",
    "p4-8gb": "t4",
    "p100-pcie-16gb": "v100-pcie-32gb",
    "mi100": "mi210",
    "mi210": "mi100",
}
#: The same for products: GPUs for which the library has the same kernels, by their names.
PRODUCT_KIN = NEXT_OF_KIN | {
    "v100-pcie-32gb": "t4",
    "t4": "v100-pcie-32gb",
    "p100-pcie-16gb": "p4-8gb",
    "p4-8gb": "p100-pcie-16gb",
}
#: How much further ranges reach on a GPU of which no row was fitted; of products, as the packaged
#: kin of such GPUs say.
WIDER = (0.7, 1.5)
PRODUCT_WIDER = (0.85, 1.2)
TARGETS = {"elem": "10 %", "softmax": "10 %", "ln": "10 %", "linear": "10 %", "bmm": "18 %"}
OPS = {"elem": "element-wise", "ln": "LayerNorm"}
#: Host times of the two machines saw the networks that wait for the host.
BENCH = "6 folds by problem; host time fitted"
LEVELS = {"level1": "median 10 %", "level2": "median 8 %", "level3": "median 12 %"}
#: Name in the table → (hidden, layers, heads, vocabulary, encoder), by their publications; gpt3_xl
#: as its times say: width 3072.
MODELS = {
    "bert_large": (1024, 24, 16, 30522),
    "gpt2_large": (1280, 36, 20, 50257),
    "gpt3_xl": (3072, 24, 24, 50257),
    "gpt3_27": (2560, 32, 32, 50257),
    "opt_13": (2048, 24, 32, 50272),
}


def score(folder: Path) -> Iterable[Score]:
    """All scores of PyTorch."""
    truth = folder / "truth"
    yield from kernelbench(truth)
    yield from single_ops(truth)
    yield from models(truth)
    yield from half_models()


# --- KernelBench ------------------------------------------------------------------------------


def kernelbench(truth: Path) -> Iterator[Score]:
    """Both cards, eager and compiled, by level; recurrent layers apart as well."""
    eager, compiled = bench.problems(truth, "eager"), bench.problems(truth, "compiled")
    machines = [
        {card: Machine(catalog.load(card), _settings(fold)) for card in bench.CARDS.values()}
        for fold in map(_with, sets.bench_folds(eager, compiled))
    ]
    for stack, rows in (("eager", eager), ("compiled", compiled)):
        found = [(p, _run(p, machines[sets.fold_of(p.name)][p.card])) for p in rows]
        for card in bench.CARDS.values():
            for level, target in LEVELS.items():
                runs = [r for p, r in found if (p.card, p.level) == (card, level)]
                yield Score(
                    what=f"KernelBench {level} {stack} {card}",
                    runs=runs,
                    held_out=BENCH,
                    family=f"KernelBench {level.replace('level', 'level ')}, {stack}, H100",
                    target=target if stack == "eager" else f"1.5 x {target}",
                )
        recurrent = [r for p, r in found if any(n in p.name for n in ("LSTM", "GRU"))]
        if stack == "eager":
            yield Score(
                what="LSTM and GRU, both H100",
                runs=recurrent,
                held_out=BENCH,
                target="within 1.5x",
            )


def _settings(calibration: Calibration, precision: str = "fp32") -> Settings:
    return Settings(precision=precision, calibration=calibration, runtime="pytorch")


def _with(constants: sets.Constants) -> Calibration:
    """The packaged constants with those of a fold for the H100."""
    shipped = packaged()
    fresh = tuple(
        msgspec.structs.replace(s, constants=constants[s.form])
        if s.framework == "torch" and s.device in bench.CARDS.values() and s.form in constants
        else s
        for s in shipped.sets
    )
    return msgspec.structs.replace(shipped, sets=fresh)


def _run(p: bench.Problem, machine: Machine) -> Run:
    asked = Settings(precision="fp32", calibration=machine.settings.calibration, runtime=p.runtime)
    return _answer(p.name, bench.workbench(p.name), machine, asked, p.measured)


def _answer(
    name: str, workbench: Workbench, machine: Machine, settings: Settings, measured: float
) -> Run:
    found = answered(workbench, machine, settings)
    whole = found.expected.total
    return Run(
        name=name,
        measured=measured,
        expected=None if whole is None else whole.value,
        low=None if whole is None else whole.low,
        high=None if whole is None else whole.high,
        roofline=found.held.time_s,
        sol=found.sol_time_s,
    )


# --- single ops -------------------------------------------------------------------------------


def single_ops(truth: Path) -> Iterator[Score]:
    """Each op on each GPU: its own rows in folds by shape, and without any row of the GPU."""
    for file, form in ops.FORMS.items():
        found = ops.rows(truth, file)
        for device in dict.fromkeys(r.device for r in found):
            own = [r for r in found if r.device == device]
            shipped = _shipped(form, file, device)
            if shipped is None:
                continue
            yield Score(
                what=f"fp32 {file} {device}",
                runs=list(_folded(own, shipped, file, device)),
                held_out="5 folds by shape",
                family=f"PyTorch fp32 {OPS.get(file, file)}",
                target=TARGETS.get(file, "18 %"),
            )
            products = form == "torch_matmul"
            other = _shipped(form, file, (PRODUCT_KIN if products else NEXT_OF_KIN)[device])
            if other is not None:
                known, c = ops.machine(device), dict(other.constants)
                energy = sets.PRODUCT_J if products else sets.ENERGY_J
                if c.get("energy_j"):  # as processes and clocks differ
                    c["energy_j"] *= energy[device] / energy[other.device]
                wider = PRODUCT_WIDER if products else WIDER
                yield Score(
                    what=f"fp32 {file} {device}, constants of {other.device}",
                    runs=[_op_run(r, known, c, other, wider) for r in own],
                    held_out="leave one GPU out",
                    family=f"PyTorch fp32 {OPS.get(file, file)}",
                    target=f"1.5 x {TARGETS.get(file, '18 %')}",
                )


def _shipped(form: str, file: str, device: str) -> Any:
    name = file if form == "torch_matmul" else "any"
    return next(
        (
            s
            for s in packaged().sets
            if (s.framework, s.form, s.device) == ("torch", form, device) and name in s.formats
        ),
        None,
    )


def _folded(own: Sequence[ops.Row], shipped: Any, file: str, device: str) -> Iterator[Run]:
    known = ops.machine(device)
    for fold in range(ops.FOLDS):
        train = [r for r in own if r.fold != fold]
        c = ops.fit(train, dict(shipped.constants), file, device)
        for r in own:
            if r.fold == fold:
                yield _op_run(r, known, c, shipped)


def _op_run(
    r: ops.Row, known: Any, c: dict[str, float], shipped: Any, wider: tuple[float, float] = (1, 1)
) -> Run:
    seconds = r.seconds(known, c)
    i = sum(seconds > edge for edge in sets.EDGES)
    return Run(
        name=r.name,
        measured=r.measured,
        expected=seconds,
        low=seconds * shipped.low[i] * wider[0],
        high=seconds * shipped.high[i] * wider[1],
        roofline=r.roofline,
        sol=None if r.file == "conv" else r.roofline,
    )


# --- whole models in 16 bits --------------------------------------------------------------------


def half_models() -> Iterator[Score]:
    """Models of timm on three GPUs: folds by model, and the constants of another GPU."""
    runs = half.rows() + half.rows("compiled")
    devices = sorted({r.device for r in runs})
    of = {d: [r for r in runs if r.device == d] for d in devices}
    fitted = {d: half.fit(own) for d, own in of.items()}
    folds = {
        d: [half.fit([r for r in own if r.fold != f]) for f in range(half.FOLDS)]
        for d, own in of.items()
    }
    for device, runtime in sorted({(r.device, r.problem.runtime) for r in runs}):
        own = [r for r in of[device] if r.problem.runtime == runtime]
        kin = "rtx-5090" if device == "rtx-3090" else "rtx-3090"
        factor = "" if runtime == "pytorch" else "1.5 x "
        yield _half_score(
            f"whole 16-bit models, {runtime}, {device}",
            [(r, folds[device][r.fold]) for r in own],
            "6 folds by model",
            f"{factor}10 %",
        )
        yield _half_score(
            f"whole 16-bit models, {runtime}, {device}, constants of {kin}",
            [(r, fitted[kin]) for r in own],
            "leave one GPU out",
            "1.5 x 10 %",
        )


def _half_score(
    what: str, pairs: Sequence[tuple[half.Run, sets.Constants]], held_out: str, target: str
) -> Score:
    runs = []
    for r, constants in pairs:
        shipped = _shipped("torch_elementwise", "any", r.device)
        seconds = r.seconds(constants)
        runs.append(
            Run(
                name=r.problem.name,
                measured=r.problem.measured,
                expected=seconds,
                low=seconds * shipped.low[-1],
                high=seconds * shipped.high[-1],
                roofline=sum(p.floor * p.count for p in r.problem.parts),
                sol=None,
            )
        )
    return Score(
        what=what,
        runs=runs,
        held_out=held_out,
        family=f"whole 16-bit models, PyTorch {'compiled' if 'compile' in what else 'eager'}",
        target=target,
    )


# --- whole models -----------------------------------------------------------------------------


#: Last word of a run in the table, or its phase → (what it is called, runtime, target).
RUNS = {
    "inf": ("whole fp32 models, PyTorch eager", "pytorch", "10 %"),
    "train": ("training step of fp32 transformers, PyTorch eager", "pytorch", "10 %"),
    "fusion": ("whole fp32 models, PyTorch compiled", "torch-compile", "1.5 x 10 %"),
}


def models(truth: Path) -> Iterator[Score]:
    """Whole fp32 models; no constant was fitted to a model.

    Two training steps of a nearly full MI210 are left out: a backward pass computes twice what its
    forward pass does, and these were timed at 0.65 and 0.99 of it.
    """
    with (truth / "pytorch_fp32_models.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = {v.replace(" ", "_"): d for v, d in ops.GPUS.items()}
    names |= {"AMD_Instinct_MI100": "mi100", "AMD_Instinct_MI210": "mi210"}
    found: dict[tuple[str, str], list[Run]] = {}
    for r in rows:
        device, parts = names.get(r["gpu"].replace(" ", "_")), r["run"].split("-")
        broken = parts[1] == "train" and float(r["bwall_latency"]) < float(r["fw_latency"])
        if device is None or parts[0] not in MODELS or broken:
            continue
        kind = parts[-1] if parts[-1] in RUNS else parts[1]
        found.setdefault((kind, device), []).append(_model_run(kind, device, parts, r))
    for (kind, device), runs in found.items():
        family, _, target = RUNS[kind]
        yield Score(
            what=f"{family}, {device}",
            runs=runs,
            held_out="no model fitted",
            family=family,
            target=target,
        )


def _model_run(kind: str, device: str, parts: Sequence[str], r: dict[str, str]) -> Run:
    settings = Settings(precision="fp32", calibration=packaged(), runtime=RUNS[kind][1])
    machine = Machine(catalog.load(device), settings)
    workbench = _model(parts[0], int(parts[2]), int(parts[3]), kind == "train")
    return _answer(r["run"], workbench, machine, settings, float(r["e2e_latency"]) / 1e3)


@cache
def _model(name: str, seq: int, batch: int, train: bool) -> Workbench:
    """The model with attention written out, as it was timed."""
    import torch

    import gambrel
    from gambrel.capture.torch import ensure_torchvision

    ensure_torchvision()
    import transformers

    hidden, layers, heads, vocabulary = MODELS[name]
    if name == "bert_large":
        config: Any = transformers.BertConfig(
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * hidden,
        )
        build: Any = transformers.BertModel
    elif name == "opt_13":
        config = transformers.OPTConfig(
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            ffn_dim=4 * hidden,
            word_embed_proj_dim=hidden,
        )
        build = transformers.OPTForCausalLM
    else:
        config = transformers.GPT2Config(
            n_embd=hidden, n_layer=layers, n_head=heads, vocab_size=vocabulary, n_positions=seq
        )
        build = transformers.GPT2LMHeadModel
    config._attn_implementation = "eager"
    config.use_cache = False
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        module = build(config).train(train)
        tokens = torch.zeros(batch, seq, dtype=torch.long)
        workload = gambrel.load_model(module, inputs=tokens, train=train)
    return Workbench(workload, {}, Conventions())
