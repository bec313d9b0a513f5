"""Speech to text: Whisper, wav2vec 2.0, Parakeet (a conformer)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from gambrel.workload import Symbol
from zoo.entry import Entry, Point, Subject, batch, empty, lean, module_subject, tokens
from zoo.language import Config, _key, subject

#: Width, layers of the encoder and of the decoder, heads, mel bins, tokens of the vocabulary.
SIZES = {
    "whisper-base": (512, 6, 6, 8, 80, 51865),
    "whisper-small": (768, 12, 12, 12, 80, 51865),
    "whisper-medium": (1024, 24, 24, 16, 80, 51865),
    "whisper-large-v3": (1280, 32, 32, 20, 128, 51866),
    "whisper-large-v3-turbo": (1280, 32, 4, 20, 128, 51866),
}
ALIASES = {
    "whisper-base": ("whisper",),
    "whisper-large-v3": ("whisper-large", "whisper-v3"),
    "whisper-large-v3-turbo": ("whisper-turbo",),
}
#: Width, layers, heads; the config.json of facebook/wav2vec2-base-960h and -large-960h.
WAV2VEC2 = {"wav2vec2-base": (768, 12, 12), "wav2vec2-large": (1024, 24, 16)}
#: Layers; the config.json of nvidia/parakeet-ctc-0.6b and -1.1b.
PARAKEET = {"parakeet-ctc-0.6b": 24, "parakeet-ctc-1.1b": 42}
#: Vocabulary with the blank; the config.json of nvidia/parakeet-tdt-0.6b-v2 and -v3.
TRANSDUCERS = {"parakeet-tdt-0.6b-v2": 1025, "parakeet-tdt-0.6b-v3": 8193}


def entries() -> Iterator[Entry]:
    """Whisper over 'target' tokens in one pass; the others by seconds of audio."""
    yield from _whisper()
    for name, sizes in WAV2VEC2.items():
        yield _audio(
            name,
            f"wav2vec 2.0 {name[9:]} with its CTC head",
            partial(_wav2vec2, *sizes),
            _samples,
            ("wav2vec2", "wav2vec2-base-960h") if name == "wav2vec2-base" else (f"{name}-960h",),
            "transformers Wav2Vec2ForCTC",
        )
    for name, layers in PARAKEET.items():
        yield _audio(
            name,
            f"Parakeet CTC {name[13:].upper()}, a fast conformer with its CTC head",
            partial(_parakeet, layers),
            partial(_mels, 80),
            ("parakeet", "conformer", "fastconformer") if layers == 42 else (),
            "transformers ParakeetForCTC",
        )
    for name, vocabulary in TRANSDUCERS.items():
        yield _audio(
            name,
            f"Parakeet TDT 0.6B {name[-2:]}: encoder, joint network at each frame, one token",
            partial(_transducer, vocabulary),
            partial(_mels, 128, token=True),
            ("parakeet-tdt-0.6b", "parakeet-tdt") if name[-1] == "3" else (),
            "transformers ParakeetForTDT",
        )


def _audio(
    name: str, about: str, make: Any, inputs: Any, aliases: tuple[str, ...], source: str
) -> Entry:
    def build() -> Subject:
        return module_subject(lean(make), inputs)

    return Entry(
        name=name,
        family="speech",
        about=about,
        build=build,
        symbols=(
            batch("pieces of audio at once"),
            Symbol(name="seconds", default=16, minimum=2, multiple_of=2, about="of audio"),
        ),
        values={"batch": (1, 3), "seconds": (2, 4, 8)},
        held_out=({"batch": 2, "seconds": 30}, {"batch": 5, "seconds": 16}),
        aliases=aliases,
        source=source,
    )


def _wav2vec2(width: int, layers: int, heads: int) -> Any:
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        attn_implementation="sdpa",
    )
    return Wav2Vec2ForCTC(config)


def _samples(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """16,000 samples a second, and what the first convolutions need to make whole frames."""
    return (empty(point["batch"], 16_000 * point["seconds"] + 80),), {}


def _parakeet(layers: int) -> Any:
    from transformers import ParakeetCTCConfig, ParakeetForCTC

    encoder = {"num_hidden_layers": layers, "attn_implementation": "sdpa"}
    return ParakeetForCTC(ParakeetCTCConfig(encoder_config=encoder))


def _transducer(vocabulary: int) -> Any:
    from transformers import ParakeetForTDT, ParakeetTDTConfig

    encoder = {
        "num_hidden_layers": 24,
        "num_mel_bins": 128,
        "attention_bias": False,
        "convolution_bias": False,
        "scale_input": False,
        "attn_implementation": "sdpa",
    }
    return ParakeetForTDT(
        ParakeetTDTConfig(
            encoder_config=encoder, vocab_size=vocabulary, blank_token_id=vocabulary - 1
        )
    )


def _mels(
    bins: int, _: Any, point: Point, *, token: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """100 spectra a second, and the last token of a transducer."""
    named = {"decoder_input_ids": tokens(point["batch"], 1)} if token else {}
    return (empty(point["batch"], 100 * point["seconds"], bins),), named


def _whisper() -> Iterator[Entry]:
    for name, (width, layers, decoder, heads, bins, vocabulary) in SIZES.items():
        config: Config = {
            "model_type": "whisper",
            "architectures": ["WhisperForConditionalGeneration"],
            "d_model": width,
            "encoder_layers": layers,
            "decoder_layers": decoder,
            "num_hidden_layers": layers,
            "encoder_attention_heads": heads,
            "decoder_attention_heads": heads,
            "encoder_ffn_dim": 4 * width,
            "decoder_ffn_dim": 4 * width,
            "vocab_size": vocabulary,
            "num_mel_bins": bins,
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
            aliases=ALIASES.get(name, ()),
            source="transformers WhisperForConditionalGeneration",
        )
