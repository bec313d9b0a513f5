"""Writes the small archives in ``tests/data/keras``; needs Keras 3 (3.15 wrote those committed).

Run ``KERAS_BACKEND=jax python scripts/make_keras_samples.py``. Weights are left out: no reader
opens them.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent.parent / "tests" / "data" / "keras"


def main() -> None:
    """Writes the archives."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, build in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.keras"
            build().save(path)
            with (
                zipfile.ZipFile(path) as whole,
                zipfile.ZipFile(FOLDER / f"{name}.keras", "w", zipfile.ZIP_DEFLATED) as small,
            ):
                for member in ("metadata.json", "config.json"):
                    small.writestr(member, whole.read(member))
                small.writestr("model.weights.h5", b"left out")
        sys.stdout.write(f"{name}: {(FOLDER / f'{name}.keras').stat().st_size} bytes\n")


def _cnn() -> Any:
    import keras
    from keras import layers

    image = keras.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, strides=2, padding="same", use_bias=False)(image)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Add()([layers.DepthwiseConv2D(3, padding="same")(x), x]) * 2.0
    x = layers.Dropout(0.1)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, layers.Dense(10, activation="softmax")(x))


def _rnn() -> Any:
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((20,)),
            layers.Embedding(1000, 64),
            layers.LSTM(32, return_sequences=True),
            layers.Bidirectional(layers.GRU(16)),
            layers.Dense(1),
        ]
    )


def _block() -> Any:
    import keras
    from keras import layers

    x = keras.Input((64, 96))
    y = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 24)(x, x))
    z = layers.Dense(96)(layers.Dense(384, activation="gelu")(y))
    return keras.Model(x, y + z)


def _nested() -> Any:
    """One model called twice in another, sizes of the image open."""
    import keras
    from keras import layers

    trunk = keras.Sequential([keras.Input((None, None, 3)), layers.Conv2D(8, 3, activation="relu")])
    a, b = keras.Input((None, None, 3)), keras.Input((None, None, 3))
    joined = layers.Concatenate()([trunk(a), trunk(b)])
    return keras.Model([a, b], layers.GlobalMaxPooling2D()(joined))


def _own() -> Any:
    """A function of the user's between two layers."""
    import keras
    from keras import layers

    x = keras.Input((8,))
    y = layers.Lambda(lambda t: t * t, output_shape=(8,))(layers.Dense(8)(x))
    return keras.Model(x, layers.Dense(4)(y))


MODELS: Final[dict[str, Callable[[], Any]]] = {
    "cnn": _cnn,
    "rnn": _rnn,
    "block": _block,
    "nested": _nested,
    "own": _own,
}

if __name__ == "__main__":
    main()
