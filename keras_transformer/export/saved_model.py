"""A TensorFlow SavedModel with tokenizer and search inside: strings in, strings out."""

import functools

import keras
from keras import ops

from keras_transformer.data.tokenizer import END_ID
from keras_transformer.decoding.search import greedy_loop
from keras_transformer.files import whole


def export_translator(translator, path):
    """Write a SavedModel that translates.

    Its signature is `serving_default(text: string[n]) -> {"translation": string[n], "score":
    float32[n]}`; the score is the log-probability of the translation's tokens. It takes any text
    and any n, sorts by length and works in batches of bounded size, as `Translator` does. A process
    that loads it needs `tensorflow` and `tensorflow_text` imported and nothing else.

    Args:
        translator: a `Translator`.
        path: the folder to write: whole, or not at all.

    Raises:
        ValueError: on another backend than TensorFlow.
    """
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            "A SavedModel is made by the tensorflow backend. This is "
            f"{keras.backend.backend()}: run again with KERAS_BACKEND=tensorflow, which loads the "
            "same model folder."
        )
    import tensorflow as tf

    module = _translation_module(translator)
    with whole(path) as folder:
        tf.saved_model.save(module, str(folder), signatures={"serving_default": module.translate})


def _translation_module(translator):
    import tensorflow as tf
    import tensorflow_text as tf_text

    model, batch_tokens = translator.model, translator.batch_tokens

    def translate_batch(token_ids):
        """Ragged ids `(rows, None)` -> translations and scores, `(rows,)` each."""
        output_ids, scores = greedy_loop(model, token_ids.to_tensor(), translator.extra_length)
        # Padding and end leave no trace in the text.
        output_ids = tf.ragged.boolean_mask(output_ids, output_ids > END_ID)
        return module.tokenizer.detokenize(output_ids), scores

    signature = [tf.TensorSpec([None], tf.string, name="text")]

    @functools.partial(tf.function, input_signature=signature, autograph=False)
    def translate(text):
        token_ids = module.tokenizer.tokenize(text)
        lengths = ops.cast(token_ids.row_lengths(), "int32")
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)

        def is_unfinished(start, translations, scores):
            return start < tf.size(order)

        def next_batch(start, translations, scores):
            rows = tf.maximum(1, batch_tokens // lengths[order[start]])
            batch = order[start : start + rows]
            new_translations, new_scores = translate_batch(tf.gather(token_ids, batch))
            return (
                start + rows,
                tf.concat([translations, new_translations], axis=0),
                tf.concat([scores, new_scores], axis=0),
            )

        _, translations, scores = tf.while_loop(
            is_unfinished,
            next_batch,
            (tf.constant(0), tf.zeros([0], tf.string), tf.zeros([0])),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape([None])),
            parallel_iterations=1,
        )
        back = tf.argsort(order)
        return {"translation": tf.gather(translations, back), "score": tf.gather(scores, back)}

    module = tf.Module()
    # A SavedModel holds what hangs on it by name: the tokenizer's table and the weights.
    module.tokenizer = tf_text.SentencepieceTokenizer(
        model=translator.tokenizer.proto, out_type=tf.int32, add_eos=True
    )
    module.weights = [variable.value for variable in model.variables]
    module.translate = translate
    return module
