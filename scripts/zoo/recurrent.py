"""Recurrent networks, state-space models, RWKV-7."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from gambrel.workload import Symbol
from zoo import rwkv
from zoo.entry import Entry, Point, Subject, batch, lean, module_subject, tokens
from zoo.language import Config, _key, subject


def _mamba(hidden: int, layers: int) -> Config:
    return {
        "model_type": "mamba",
        "architectures": ["MambaForCausalLM"],
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "state_size": 16,
        "vocab_size": 50280,
        "torch_dtype": "bfloat16",
    }


def _mamba2(hidden: int, layers: int) -> Config:
    return {
        "model_type": "mamba2",
        "architectures": ["Mamba2ForCausalLM"],
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_heads": 2 * hidden // 64,
        "head_dim": 64,
        "state_size": 128,
        "n_groups": 1,
        "chunk_size": 256,
        "vocab_size": 50288,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }


def entries() -> Iterator[Entry]:
    """A two-layer LSTM language model, Mamba, Mamba-2 and RWKV-7."""
    seq = partial(Symbol, name="seq", about="tokens a sequence")
    yield Entry(
        name="lstm",
        family="recurrent",
        about="Two-layer LSTM language model of width 1500, vocabulary of 10,000 (Zaremba 2014)",
        build=_lstm,
        symbols=(batch("sequences at once"), seq(default=35, minimum=2)),
        values={"batch": (1, 3), "seq": (2, 35)},
        held_out=({"batch": 2, "seq": 100}, {"batch": 5, "seq": 7}),
        aliases=("lstm-large", "lstm-lm"),
        source="torch nn.LSTM",
    )
    for name, config in (("mamba-130m", _mamba(768, 24)), ("mamba-2.8b", _mamba(2560, 64))):
        yield Entry(
            name=f"{name}",
            family="recurrent",
            about=f"{name.capitalize()}, reading the prompt, head on the last token",
            build=partial(subject, _key(config), None),
            symbols=(batch("sequences at once"), seq(default=2048, minimum=16)),
            values={"batch": (1, 3), "seq": (16, 160)},
            held_out=({"batch": 2, "seq": 1000}, {"batch": 5, "seq": 77}),
            aliases=("mamba", "mamba-130m-hf") if name == "mamba-130m" else ("mamba-2.8b-hf",),
            source="transformers MambaForCausalLM",
        )
    for name, config in (("mamba2-130m", _mamba2(768, 24)), ("mamba2-2.7b", _mamba2(2560, 64))):
        yield Entry(
            name=name,
            family="recurrent",
            about=f"{name.capitalize()}, reading the prompt, head on the last token",
            build=partial(subject, _key(config), None),
            symbols=(batch("sequences at once"), seq(default=2048, minimum=16)),
            values={"batch": (1, 3), "seq": (16, 160, 350)},
            held_out=({"batch": 2, "seq": 1000}, {"batch": 5, "seq": 77}),
            aliases=("mamba2", "mamba-2") if name == "mamba2-130m" else ("mamba-2-2.7b",),
            source="transformers Mamba2ForCausalLM",
        )
    for name, sizes in rwkv.SIZES.items():
        yield Entry(
            name=name,
            family="recurrent",
            about=f"RWKV-7 World {name[6:].upper()}, reading the prompt, head on the last token",
            build=partial(_rwkv7, *sizes),
            symbols=(batch("sequences at once"), seq(default=2048, minimum=16)),
            values={"batch": (1, 3), "seq": (16, 160)},
            held_out=({"batch": 2, "seq": 1000}, {"batch": 5, "seq": 77}),
            aliases=(
                *(f"{prefix}-world-{name[6:]}" for prefix in ("rwkv7", "rwkv-x070")),
                *(("rwkv7", "rwkv-7", "rwkv") if name == "rwkv7-1.5b" else ()),
            ),
            source="torch RWKV-7, arXiv 2503.14456",
        )


def _rwkv7(width: int, layers: int, ranks: tuple[int, int, int, int]) -> Subject:
    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (tokens(point["batch"], point["seq"]),), {}

    return module_subject(lean(partial(rwkv.model, width, layers, ranks)), inputs)


def _lstm() -> Subject:
    def make() -> Any:
        import torch

        class LanguageModel(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embedding = torch.nn.Embedding(10_000, 1500)
                self.lstm = torch.nn.LSTM(1500, 1500, num_layers=2, batch_first=True)
                self.head = torch.nn.Linear(1500, 10_000)

            def forward(self, ids: Any) -> Any:
                states, _ = self.lstm(self.embedding(ids))
                return self.head(states)

        return LanguageModel()

    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (tokens(point["batch"], point["seq"]),), {}

    return module_subject(lean(make), inputs)
