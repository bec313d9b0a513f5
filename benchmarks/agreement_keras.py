"""The networks of ``agreement.py`` in Keras 3, and their TFLite files.

``python benchmarks/agreement_keras.py FOLDER`` writes ``*.tflite``; it needs tensorflow (2.21 made
the table), which is no dependency of the project, and runs in an environment of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import keras
from keras import layers

#: Width, layers, heads, and for the language model tokens and vocabulary.
VIT, LM = (192, 12, 3), (384, 6, 6, 256, 8192)


def networks() -> dict[str, Any]:
    """Name → model, batch 1."""
    return {"resnet18": resnet18(), "vit": vit(), "lm": lm()}


def resnet18() -> Any:
    """As torchvision's, channels last."""

    def convolution(x: Any, width: int, size: int, stride: int) -> Any:
        x = layers.ZeroPadding2D(size // 2)(x) if size > 1 else x
        return layers.BatchNormalization()(layers.Conv2D(width, size, stride, use_bias=False)(x))

    given = layers.Input((224, 224, 3), batch_size=1)
    x = layers.ReLU()(convolution(given, 64, 7, 2))
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))
    for width in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if width > 64 and block == 0 else 1
            y = layers.ReLU()(convolution(x, width, 3, stride))
            y = convolution(y, width, 3, 1)
            x = convolution(x, width, 1, stride) if stride > 1 else x
            x = layers.ReLU()(layers.Add()([x, y]))
    return keras.Model(given, layers.Dense(1000)(layers.GlobalAveragePooling2D()(x)))


def _block(x: Any, width: int, heads: int, *, causal: bool) -> Any:
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    mixed = layers.MultiHeadAttention(heads, width // heads)(y, y, use_causal_mask=causal)
    x = layers.Add()([x, mixed])
    y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization(epsilon=1e-6)(x))
    return layers.Add()([x, layers.Dense(width)(y)])


class Positions(layers.Layer):
    """Adds a learned vector to each position."""

    def build(self, shape: Any) -> None:
        """One weight."""
        self.table = self.add_weight(shape=(1, *shape[1:]), name="table")

    def call(self, x: Any) -> Any:
        """The sum."""
        return x + self.table


def vit() -> Any:
    """ViT-Ti/16 with the mean of its tokens before the head."""
    width, depth, heads = VIT
    given = layers.Input((224, 224, 3), batch_size=1)
    x = layers.Reshape((196, width))(layers.Conv2D(width, 16, 16)(given))
    x = Positions()(x)
    for _ in range(depth):
        x = _block(x, width, heads, causal=False)
    x = layers.LayerNormalization(epsilon=1e-6)(x)
    return keras.Model(given, layers.Dense(1000)(layers.GlobalAveragePooling1D()(x)))


def lm() -> Any:
    """A decoder with learned positions; logits of every token."""
    width, depth, heads, tokens, vocabulary = LM
    given = layers.Input((tokens,), batch_size=1, dtype="int32")
    x = Positions()(layers.Embedding(vocabulary, width)(given))
    for _ in range(depth):
        x = _block(x, width, heads, causal=True)
    x = layers.LayerNormalization(epsilon=1e-6)(x)
    return keras.Model(given, layers.Dense(vocabulary, use_bias=False)(x))


def main() -> None:
    """Converts all of them."""
    import tensorflow as tf

    for name, model in networks().items():
        made = tf.lite.TFLiteConverter.from_keras_model(model).convert()
        (Path(sys.argv[1]) / f"{name}.tflite").write_bytes(made)


if __name__ == "__main__":
    main()
