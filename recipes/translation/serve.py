"""Translate with an exported SavedModel: `serve.py SAVED_MODEL SENTENCE ...`.

This is all that a server needs: neither Keras nor keras_transformer, only TensorFlow and the
tokenizer's operations.
"""

import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operations


def main(path, sentences):
    translate = tf.saved_model.load(path).signatures["serving_default"]
    outputs = translate(text=tf.constant(sentences, tf.string))
    for sentence, translation in zip(sentences, outputs["translation"].numpy()):
        print(f"{sentence} -> {translation.decode()}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: serve.py SAVED_MODEL SENTENCE ...")
    main(sys.argv[1], sys.argv[2:])
