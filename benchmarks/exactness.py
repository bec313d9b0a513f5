"""FLOPs of published and hand-derived figures against what gambrel counts, and coverage.

The right-hand figures are literals, worked out from the architectures (multiply-accumulate work,
FMA = 2): matrix work of convolutions, linear layers and attention products. Vector work is counted
too, apart from these.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import gambrel
from common import report
from gambrel.capture import zoo

#: Published configuration of DeepSeek-V3 (671 B parameters), from its model card.
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"],
    "vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "n_shared_experts": 1, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4, "first_k_dense_replace": 3,
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "max_position_embeddings": 163840, "torch_dtype": "bfloat16",
}  # fmt: skip

MAMBA_130M = {
    "model_type": "mamba", "architectures": ["MambaForCausalLM"], "vocab_size": 50280,
    "hidden_size": 768, "num_hidden_layers": 24, "state_size": 16, "torch_dtype": "float32",
}  # fmt: skip

SMALL_LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000,
    "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8,
    "num_attention_heads": 16, "num_key_value_heads": 4, "torch_dtype": "float32",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model at given sizes and its true matrix FLOPs."""

    label: str
    model: str
    truth: float
    digits: int = 4
    sizes: dict[str, int] = field(default_factory=dict)
    phase: str | None = None
    causal: str = "half"


S = {"batch": 1, "seq": 2048}
CASES = (
    Case(label="ResNet-18, 224", model="resnet18", truth=3.6281e9, digits=5),
    Case(label="ResNet-50, 224", model="resnet50", truth=8.1784e9, digits=5),
    Case(label="ViT-B/16, 224", model="vit-b-16", truth=35.1277e9, digits=6),
    Case(label="BERT-base with pooler, 128", model="bert-base", truth=22.3484e9, digits=6,
         sizes={"seq": 128}),
    Case(label="BERT-base with pooler, 512", model="bert-base", truth=96.64e9,
         sizes={"seq": 512}),
    Case(label="Llama-3-8B prefill 2048", model="llama-3-8b", truth=29.69e12, sizes=S),
    Case(label="Llama-3-70B prefill 2048", model="llama-3-70b", truth=285.9e12, sizes=S),
    Case(label="Mixtral 8x7B prefill 2048", model="mixtral-8x7b", truth=52.78e12, sizes=S),
    Case(label="SD 1.5 UNet, 32 latent", model="sd15-unet", truth=180.1064e9, digits=7,
         sizes={"latent": 32}),
    Case(label="SD 1.5 UNet, 64 latent, batch 2", model="sd15-unet", truth=1.607e12,
         sizes={"latent": 64, "batch": 2}),
)  # fmt: skip


def main() -> None:
    rows = [row(case) for case in CASES]
    rows += [deepseek(), *all_tokens(), *mamba()]
    report(
        "exactness",
        "Matrix FLOPs against hand counts",
        ["case", "truth, FLOP", "gambrel, FLOP", "ratio", "equal", "vector FLOP apart", "coverage"],
        rows,
        notes=[
            "Equal: to all digits to which the truth is given; every ratio must be 1.000.",
            "Mamba-130M: transformers' convolution computes 3 outputs a row past the end, which it "
            "then cuts off: 3 * 1536 * 4 * 24 multiply-adds more than the hand count.",
            "Causal attention counts S(S+1)/2 pairs; LM head on the last token for prefill.",
        ],
        packages=("gambrel", "torch", "transformers"),
    )
    coverage()
    wrong = [r[0] for r in rows if round(float(str(r[3])), 3) != 1]
    if wrong:
        sys.exit(f"not exact: {', '.join(map(str, wrong))}")


def row(case: Case) -> list[object]:
    found = gambrel.analyze(
        case.model, "h100", sizes=case.sizes, phase=case.phase, causal=case.causal
    )
    return line(case.label, case.truth, found, case.digits)


def line(label: str, truth: float, found: gambrel.Analysis, digits: int = 4) -> list[object]:
    count = found.total.matrix_flops
    return [
        label,
        f"{truth:.7g}",
        f"{count:,}",
        f"{count / truth:.4f}",
        "yes" if float(f"{count:.{digits}g}") == truth else "NO",
        f"{found.total.vector_flops:.4g}",
        f"{found.coverage:.0%}",
    ]


def deepseek() -> list[object]:
    from gambrel.capture.torch.huggingface import workload_from_config

    workload = workload_from_config(DEEPSEEK_V3, phase="prefill", batch=1, seq=2048)
    found = gambrel.analyze(workload, "h200")
    return line(f"DeepSeek-V3 prefill 2048 ({found.model.parameters / 1e9:.0f} B)", 156.7e12, found)


def all_tokens() -> list[list[object]]:
    """Language models with the head on every token and full attention."""
    from gambrel.capture.torch.huggingface import HuggingFaceModel

    cases = {
        "GPT-2 small, 128, head on all tokens, full attention": (
            {
                "model_type": "gpt2",
                "architectures": ["GPT2LMHeadModel"],
                "n_embd": 768,
                "n_layer": 12,
                "n_head": 12,
                "vocab_size": 50257,
                "n_positions": 1024,
            },
            32.2282e9,
        ),
        "small Llama, 128, head on all tokens, full attention": (SMALL_LLAMA, 32.0109e9),
    }
    rows = []
    for label, (config, truth) in cases.items():
        model = HuggingFaceModel(config)
        workload = model.capture("prefill", {"batch": 1, "seq": 128}, last_logits=False)
        found = gambrel.analyze(workload, "h100", causal="full")
        rows.append(line(label, truth, found, digits=6))
    return rows


def mamba() -> list[list[object]]:
    """Mamba-130M with the head on all tokens, and the vector work of its scans apart."""
    from gambrel.capture.torch.huggingface import HuggingFaceModel

    workload = HuggingFaceModel(MAMBA_130M).capture(
        "prefill", {"batch": 1, "seq": 128}, last_logits=False
    )
    found = gambrel.analyze(workload, "h100")
    scan = sum(o.measures.vector_flops for o in found.ops if o.kind == "selective_scan")
    # Per token, channel and layer: 6 FLOP for each of 16 states, and 11 for skip, gate and
    # softplus: (96 + 11) * 128 * 1536 * 24. The 6 alone are the published 0.453e9.
    truth = 504_889_344
    return [
        line("Mamba-130M, 128, head on all tokens", 33.0254e9, found),
        [
            "Mamba-130M, scans (vector work)",
            f"{truth:,}",
            f"{scan:,}",
            f"{scan / truth:.4f}",
            "yes" if scan == truth else "NO",
            "",
            "",
        ],
    ]


def coverage() -> None:
    rows = []
    for model in zoo.list_models():
        found = gambrel.analyze(zoo.load(model.name), "h100", precision="fp16")
        missing = ", ".join(f"{k} ×{n}" for k, n in found.unmodelled.items()) or "none"
        rows.append(
            [
                model.name,
                f"{found.model.parameters / 1e6:,.1f} M",
                f"{found.total.matrix_flops / 1e9:,.3f} G",
                f"{found.total.vector_flops / 1e9:,.3f} G",
                f"{found.coverage:.1%}",
                missing,
            ]
        )
    report(
        "zoo",
        "The embedded zoo: counts and coverage at default sizes",
        ["model", "parameters", "matrix FLOP", "vector FLOP", "coverage", "unmodelled"],
        rows,
    )


if __name__ == "__main__":
    main()
