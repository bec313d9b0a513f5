"""Makes the TFLite files of the tests: ``python scripts/make_tflite_samples.py tests/data/tflite``.

Needs tensorflow (2.21 made the files in the repository), which is no dependency of the project.
The architectures are the two smallest of MLPerf Tiny, with random weights: the residual network of
image classification and the depthwise-separable network of keyword spotting; besides them a
transformer block, an LSTM and a graph with a loop, a branch and a custom op.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_USE_LEGACY_KERAS", "0")

import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers


def resnet8() -> Model:
    """Residual network of MLPerf Tiny, 32 x 32 x 3 to 10 classes."""

    def unit(x, width, stride):
        y = layers.Conv2D(width, 3, strides=stride, padding="same")(x)
        y = layers.ReLU()(layers.BatchNormalization()(y))
        y = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same")(y))
        if stride > 1:
            x = layers.Conv2D(width, 1, strides=stride, padding="same")(x)
        return layers.ReLU()(layers.Add()([x, y]))

    given = layers.Input((32, 32, 3), batch_size=1)
    x = layers.Conv2D(16, 3, padding="same")(given)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        x = unit(x, width, stride)
    x = layers.Flatten()(layers.AveragePooling2D(8)(x))
    return Model(given, layers.Dense(10, activation="softmax")(x), name="resnet8")


def ds_cnn() -> Model:
    """Depthwise-separable network of MLPerf Tiny, 49 x 10 features to 12 words."""
    given = layers.Input((49, 10, 1), batch_size=1)
    x = layers.Conv2D(64, (10, 4), strides=2, padding="same")(given)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    for _ in range(4):
        x = layers.DepthwiseConv2D(3, padding="same")(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(64, 1)(x)))
    x = layers.Flatten()(layers.AveragePooling2D((25, 5))(x))
    return Model(given, layers.Dense(12, activation="softmax")(x), name="ds_cnn")


def transformer() -> Model:
    """One block: 2 heads of 16, 16 tokens of 32, a perceptron of 64."""
    given = layers.Input((16, 32), batch_size=1)
    x = layers.LayerNormalization()(given)
    x = layers.Add()([given, layers.MultiHeadAttention(2, 16)(x, x)])
    y = layers.Dense(64, activation="gelu")(layers.LayerNormalization()(x))
    return Model(given, layers.Add()([x, layers.Dense(32)(y)]), name="transformer")


def lstm() -> Model:
    """10 steps of 8 features, 16 units."""
    given = layers.Input((10, 8), batch_size=1)
    return Model(given, layers.Dense(4)(layers.LSTM(16)(given)), name="lstm")


def randomized(model: Model) -> Model:
    """Every weight and statistic random, so that the converter finds no two alike."""
    rng = np.random.default_rng(0)
    model.set_weights([rng.uniform(0.05, 0.2, w.shape) for w in model.get_weights()])
    return model


def converted(model: Model, kind: str) -> bytes:
    """A model in one of the converter's ways."""
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if kind != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "fp16":
        converter.target_spec.supported_types = [tf.float16]
    if kind.startswith("int8"):
        shape = tuple(model.inputs[0].shape)
        rng = np.random.default_rng(0)

        def samples():
            for _ in range(4):
                yield [rng.standard_normal(shape).astype(np.float32)]

        converter.representative_dataset = samples
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
        if kind == "int8_tensor":
            converter._experimental_disable_per_channel = True
    return converter.convert()


def control() -> bytes:
    """A loop of 4 trips, a branch on data, an op of TensorFlow without a kernel of its own."""
    weight = tf.constant(np.random.default_rng(0).standard_normal((8, 8)), tf.float32)

    @tf.function(input_signature=[tf.TensorSpec((1, 8), tf.float32)])
    def run(x):
        for _ in tf.range(4):
            x = tf.matmul(x, weight)
        x = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.matmul(x, weight), lambda: x + 1.0)
        return tf.math.igamma(tf.abs(x), tf.abs(x))

    converter = tf.lite.TFLiteConverter.from_concrete_functions([run.get_concrete_function()])
    converter.allow_custom_ops = True
    return converter.convert()


def main() -> None:
    """Writes all files."""
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    tf.keras.utils.set_random_seed(0)
    made = {
        "resnet8_int8": (resnet8, "int8"),
        "ds_cnn_float": (ds_cnn, "float"),
        "ds_cnn_int8": (ds_cnn, "int8"),
        "ds_cnn_int8_tensor": (ds_cnn, "int8_tensor"),
        "ds_cnn_fp16": (ds_cnn, "fp16"),
        "ds_cnn_dynamic": (ds_cnn, "dynamic"),
        "transformer_float": (transformer, "float"),
        "transformer_int8": (transformer, "int8"),
        "lstm_float": (lstm, "float"),
    }
    for name, (build, kind) in made.items():
        (folder / f"{name}.tflite").write_bytes(converted(randomized(build()), kind))
    (folder / "control.tflite").write_bytes(control())


if __name__ == "__main__":
    main()
