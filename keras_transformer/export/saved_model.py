"""A TensorFlow SavedModel with tokenizer and search inside: strings in, strings out."""

import keras
from keras import ops

from keras_transformer.data.tokenizer import END_ID
from keras_transformer.files import whole


def export_translator(translator, path):
    """Write a SavedModel that translates, with these signatures:

    ```
    serving_default(text: string[n])            -> translation: string[n], score: float32[n]
    n_best(text: string[n])                     -> translation: string[n, k], score: float32[n, k]
    token_ids(token_ids: int32[n, source])      -> token_ids: int32[n, length], score: float32[n]
    ```

    The search is the translator's own, with its options; k is its `beam_size`. The string
    signatures take any text and any n, sort by length and work in batches of bounded size, as
    `Translator` does. Where there are fewer than k translations, the rest are empty and score minus
    infinity. Token ids end with the end token and are padded with 0, as `beam_search` takes and
    gives them. A process that loads the model needs `tensorflow` and `tensorflow_text` imported and
    nothing else.

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
    signatures = {
        "serving_default": module.translate,
        "n_best": module.n_best,
        "token_ids": module.search,
    }
    with whole(path) as folder:
        tf.saved_model.save(module, str(folder), signatures=signatures)


def _translation_module(translator):
    import tensorflow as tf
    import tensorflow_text as tf_text

    module = tf.Module()
    # A SavedModel holds what hangs on it by name: the tokenizer's table and the weights.
    module.tokenizer = tf_text.SentencepieceTokenizer(
        model=translator.tokenizer.proto, out_type=tf.int32, add_eos=True
    )
    module.weights = [variable.value for variable in translator.model.variables]

    def signature(shape, dtype, name):
        return {"input_signature": [tf.TensorSpec(shape, dtype, name=name)], "autograph": False}

    @tf.function(**signature([None], tf.string, "text"))
    def translate(text):
        translations, scores = _translate(translator, module.tokenizer, text, 1)
        return {"translation": translations[:, 0], "score": scores[:, 0]}

    @tf.function(**signature([None], tf.string, "text"))
    def n_best(text):
        num_results = translator.search_options.get("beam_size", 4)
        translations, scores = _translate(translator, module.tokenizer, text, num_results)
        return {"translation": translations, "score": scores}

    @tf.function(**signature([None, None], tf.int32, "token_ids"))
    def search(token_ids):
        output_ids, scores = translator.search_batch(token_ids, 1)
        return {"token_ids": output_ids[:, 0], "score": scores[:, 0]}

    module.translate, module.n_best, module.search = translate, n_best, search
    return module


def _translate(translator, tokenizer, text, num_results):
    """Strings `(n,)` to translations and scores, `(n, num_results)` each."""
    import tensorflow as tf

    token_ids = tokenizer.tokenize(text)
    lengths = ops.cast(token_ids.row_lengths(), "int32")
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)

    def is_unfinished(start, translations, scores):
        return start < tf.size(order)

    def next_batch(start, translations, scores):
        rows = tf.maximum(1, translator.batch_tokens // lengths[order[start]])
        batch = tf.gather(token_ids, order[start : start + rows])
        output_ids, new_scores = translator.search_batch(batch.to_tensor(), num_results)
        new_translations = _detokenize(tokenizer, output_ids)
        return (
            start + rows,
            tf.concat([translations, new_translations], axis=0),
            tf.concat([scores, new_scores], axis=0),
        )

    _, translations, scores = tf.while_loop(
        is_unfinished,
        next_batch,
        (tf.constant(0), tf.zeros([0, num_results], tf.string), tf.zeros([0, num_results])),
        shape_invariants=(tf.TensorShape([]), *[tf.TensorShape([None, num_results])] * 2),
        parallel_iterations=1,
    )
    back = tf.argsort(order)
    return tf.gather(translations, back), tf.gather(scores, back)


def _detokenize(tokenizer, token_ids):
    """Ids `(batch, num_results, length)` to strings `(batch, num_results)`."""
    import tensorflow as tf

    num_results, length = token_ids.shape[1], tf.shape(token_ids)[2]
    flat_ids = tf.reshape(token_ids, [tf.shape(token_ids)[0] * num_results, length])
    # Padding and end leave no trace in the text.
    texts = tokenizer.detokenize(tf.ragged.boolean_mask(flat_ids, flat_ids > END_ID))
    return tf.reshape(texts, [-1, num_results])
