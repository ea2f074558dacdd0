"""Translate with an exported SavedModel: `serve.py SAVED_MODEL SENTENCE ...`.

A server needs no more than this: TensorFlow and the tokenizer's operations, without Keras or
keras_transformer.
"""

import os
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # errors are raised all the same


def main(path, sentences):
    if not os.path.isfile(os.path.join(path, "saved_model.pb")):
        fail(f"{path} is not a SavedModel: it has no file saved_model.pb.")
    tf, functions = load(path)
    translate = functions.get("serving_default")
    if translate is None or "translation" not in translate.structured_outputs:
        fail(f"{path} is not the SavedModel of a translator.")
    outputs = translate(text=tf.constant(sentences, tf.string))
    for sentence, translation in zip(sentences, outputs["translation"].numpy()):
        print(f"{sentence} -> {translation.decode()}")


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def load(path):
    """Return TensorFlow and the SavedModel's functions.

    TensorFlow's own messages are shown only if this fails.
    """
    with tempfile.TemporaryFile() as messages:
        standard_error = os.dup(2)
        os.dup2(messages.fileno(), 2)
        try:
            import tensorflow as tf
            import tensorflow_text  # noqa: F401  registers the operations

            return tf, tf.saved_model.load(path).signatures
        except BaseException:
            messages.seek(0)
            os.write(standard_error, messages.read())
            raise
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        fail("Expected two arguments or more: serve.py SAVED_MODEL SENTENCE ...")
    main(sys.argv[1], sys.argv[2:])
