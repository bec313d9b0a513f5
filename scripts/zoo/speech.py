"""Whisper: 30 seconds of audio in, text out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gambrel.workload import Symbol
from zoo.entry import Entry, batch
from zoo.language import Config, _key, subject

#: Width, layers, heads; encoder and decoder alike.
SIZES = {"whisper-base": (512, 6, 8), "whisper-small": (768, 12, 12)}


def entries() -> Iterator[Entry]:
    """Encoder and decoder in one pass over 'target' tokens."""
    for name, (width, layers, heads) in SIZES.items():
        config: Config = {
            "model_type": "whisper",
            "architectures": ["WhisperForConditionalGeneration"],
            "d_model": width,
            "encoder_layers": layers,
            "decoder_layers": layers,
            "num_hidden_layers": layers,
            "encoder_attention_heads": heads,
            "decoder_attention_heads": heads,
            "encoder_ffn_dim": 4 * width,
            "decoder_ffn_dim": 4 * width,
            "vocab_size": 51865,
            "num_mel_bins": 80,
            "max_source_positions": 1500,
            "max_target_positions": 448,
        }
        target = Symbol(
            name="target", default=448, minimum=16, maximum=448, about="tokens of text, all at once"
        )
        yield Entry(
            name=name,
            family="speech",
            about=f"{name.capitalize()}: encoder (30 s of audio) and decoder in one pass",
            build=partial(subject, _key(config), None),
            symbols=(batch("pieces of audio at once"), target),
            values={"batch": (1, 3), "target": (16, 100, 300)},
            held_out=({"batch": 2, "target": 448}, {"batch": 5, "target": 77}),
            aliases=("whisper",) if name == "whisper-base" else (),
            source="transformers WhisperForConditionalGeneration",
        )
