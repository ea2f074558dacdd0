"""Translate with an exported SavedModel: `translate_with_saved_model.py FOLDER SENTENCE ...`.

A server needs no more than this: TensorFlow and the tokenizer's operations, without Keras or
keras_transformer.
"""

import contextlib
import os
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # errors are raised all the same


def main(path, sentences):
    if not os.path.isfile(os.path.join(path, "saved_model.pb")):
        fail(f"{path} is not a SavedModel: it has no file saved_model.pb.")
    with messages_of_failures():
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  registers the operations

        translate = tf.saved_model.load(path).signatures.get("serving_default")
        if translate is not None and "translation" in translate.structured_outputs:
            outputs = translate(text=tf.constant(sentences, tf.string))
            translations = outputs["translation"].numpy()
        else:
            translations = None
    if translations is None:
        fail(f"{path} is not the SavedModel of a translator.")
    for sentence, translation in zip(sentences, translations):
        print(f"{sentence} -> {translation.decode()}")


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


@contextlib.contextmanager
def messages_of_failures():
    """Show the messages of TensorFlow and its libraries only if the block fails.

    They come at every log level, when TensorFlow is imported and when it first computes.
    """
    with tempfile.TemporaryFile() as messages:
        standard_error = os.dup(2)
        os.dup2(messages.fileno(), 2)
        try:
            yield
        except BaseException:
            messages.seek(0)
            os.write(standard_error, messages.read())
            raise
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        fail(f"Expected two arguments or more: {sys.argv[0]} FOLDER SENTENCE ...")
    main(sys.argv[1], sys.argv[2:])
