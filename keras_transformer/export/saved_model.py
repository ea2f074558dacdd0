"""A TensorFlow SavedModel with tokenizer and search inside: strings in, strings out."""

from collections.abc import Callable, Sequence
from contextvars import copy_context
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.data.text_lines import BREAKS
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding.batch_compaction import stages_for_xla
from keras_transformer.decoding.batched_search import SIZES, rows_of_sizes
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.errors import UserError
from keras_transformer.export.exported_folder import exported_folder
from keras_transformer.presets.format import Preset
from keras_transformer.presets.location import SAVED_MODEL
from keras_transformer.reserved_ids import END_ID, PAD_ID

# The white space of `str.isspace`, and the empty text, as an expression of RE2, whose own class of
# white space is smaller.
WHITE_SPACE = r"[\s\v\x1c-\x1f\x{85}\pZ]*"

# The lines of `translation.preparation`, likewise.
_LINE_BREAK = r"(\r\n|[\n\v\f\r\x1c-\x1e\x{85}\x{2028}\x{2029}])"
_BULLET = rf"(?:{WHITE_SPACE}(?:[-*+•◦▪‣·–—]|\(?(?:\d{{1,3}}|[a-z])\)){WHITE_SPACE[:-1]}+)?"
_LINE_END = b"\xff"  # in no text, which is UTF-8

# Numbers of rows and lengths that batches are padded to for XLA, which compiles each of them.
_XLA_ROWS, _XLA_LENGTHS = np.array([1, 4, 16, 32, 64], "int32"), np.array([16, 32, 64], "int32")


def export_saved_model(
    preset: Preset,
    path: str | Path,
    num_results: int | None = None,
    xla: bool = False,
    *,
    search_batch: Callable,
    source_limit: int | None,
    batch_tokens: int,
) -> None:
    """Write a SavedModel that translates, with these signatures:

    ```
    serving_default(text: string[n])            -> translation: string[n], score: float32[n]
    n_best(text: string[n])                     -> translation: string[n, k], score: float32[n, k]
    token_ids(token_ids: int32[n, source])      -> token_ids: int32[n, length], score: float32[n]
    ```

    It searches with the translator's own search and options; k is `num_results`. The string
    signatures accept any text and any n, sort by length and work in batches of bounded size, as
    `Translator` does. `serving_default` splits texts into lines, as `split="lines"` does, unless
    the translator's own `split` is None: TensorFlow has no operation that splits sentences.
    `n_best` translates each text as one sentence. Placeholders and tags are read as text. Both cut
    sources that exceed `max_source_length`. If there are fewer than k translations, the rest are
    empty, with score minus infinity. Token ids end with the end token and are padded with 0, like
    the arguments and results of a search: a source prefix is not added to them, and a target prefix
    is not removed. Other ids, and padding before a token, raise an `InvalidArgumentError`. A search
    that samples uses a text's position among the n as its number: see `Sampling`. A process that
    loads the model only needs to import `tensorflow` and `tensorflow_text`.

    Args:
        preset: the `Preset` of a `Translator`.
        path: the folder to write, completely or not at all.
        num_results: the number of translations that `n_best` returns. Defaults to the `beam_size`
            of a beam search, and to 1 for sampling.
        xla: whether XLA compiles the steps of the search for batches of few shapes, when they first
            occur. Batches are padded to the shapes; longer sentences, and `token_ids` with more
            rows, are searched by the graph for all shapes. TensorFlow Serving then needs its
            flag `xla_cpu_compilation_enabled`.
        search_batch: the translator's own function.
        source_limit: the largest number of tokens of a source, or None.
        batch_tokens: the largest number of source slots translated at once.

    Raises:
        UserError: on another backend than TensorFlow, if the search returns fewer results, a
            tokenizer is not a SentencePiece model, or `path` contains other files than a
            SavedModel.
    """
    search = preset.search or BeamSearch()
    num_results = num_results or search.most_results or 1
    search.validate_num_results(num_results)
    if xla:
        search_batch = _search_for_xla(search_batch, source_limit)
        batch_tokens = min(batch_tokens, 1024)  # rows of `_XLA_ROWS` for each length

    def module() -> tuple[Any, dict[str, Any]]:
        return _translation_module(preset, num_results, search_batch, source_limit, batch_tokens)

    save_module(module, preset.model, path)


def save_module(make_module: Callable, model: keras.Model, path: str | Path) -> None:
    """Write a SavedModel, completely or not at all.

    Args:
        make_module: function that returns a `tf.Module` and its signatures.
        model: the model whose weights the module uses.
        path: the folder to write.

    Raises:
        UserError: on another backend than TensorFlow, or if `path` contains other files than a
            SavedModel.
    """
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "Exporting a SavedModel needs KERAS_BACKEND=tensorflow, which loads the same model "
            f"folder. Received: KERAS_BACKEND={keras.backend.backend()}"
        )
    import tensorflow as tf

    with exported_folder(path, "saved_model", SAVED_MODEL) as folder:
        module, signatures = make_module()
        # A SavedModel contains the attributes of its module.
        module.weights = [variable.value for variable in model.variables]
        tf.saved_model.save(module, str(folder), signatures=signatures)


def text_signature(
    dtype: str = "string", shape: Shape = (None,), name: str = "text"
) -> dict[str, Any]:
    """Return the arguments of `tf.function` for a signature of one input."""
    import tensorflow as tf

    return {"input_signature": [tf.TensorSpec(shape, dtype, name=name)], "autograph": False}


def _translation_module(
    preset: Preset,
    num_results: int,
    search_batch: Callable,
    source_limit: int | None,
    batch_tokens: int,
) -> tuple[Any, dict[str, Any]]:
    import tensorflow as tf

    module: Any = tf.Module()
    module.tokenizer = string_tokenizer(preset.tokenizer)
    module.source_tokenizer = module.tokenizer
    if preset.source_tokenizer is not preset.tokenizer:
        module.source_tokenizer = string_tokenizer(preset.source_tokenizer)
    target_prefix = preset.preprocessor.target_prefix

    def search_texts(
        text: Tensor, num_results: int, numbers: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        def search(batch: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            chosen = rows if numbers is None else tf.gather(numbers, rows)
            token_ids, scores = search_batch(batch, num_results, sentence_numbers=chosen)
            texts = _detokenize(module.tokenizer, token_ids[:, :, len(target_prefix) :])
            return without_breaks(texts, tf.gather(text, rows)), scores

        token_ids = module.source_tokenizer.tokenize(text)
        has_tokens = token_ids.row_lengths() > 1  # more than the end token
        is_searched = has_tokens & ~tf.strings.regex_full_match(text, WHITE_SPACE)
        token_ids = _sources(preset.preprocessor, source_limit, token_ids)
        return search_in_batches(token_ids, is_searched, search, batch_tokens, num_results)

    @tf.function(**text_signature())
    def translate(text: Tensor) -> dict[str, Tensor]:
        if preset.metadata.get("split", "sentences") is None:
            translations, scores = search_texts(text, 1)
            return {"translation": translations[:, 0], "score": scores[:, 0]}
        lines = _lines(text)
        before, sentences, after = _without_edges(lines.flat_values)
        translations, scores = search_texts(sentences, 1, _numbers(lines))
        # A line without letters stays as it is: see `translation.preparation`.
        has_letter = tf.strings.regex_full_match(sentences, r"(?s).*\pL.*")
        translations = tf.where(has_letter, translations[:, 0], sentences)
        joined = lines.with_flat_values(tf.strings.join([before, translations, after]))
        scores = lines.with_flat_values(tf.where(has_letter, scores[:, 0], 0.0))
        return {
            "translation": tf.strings.reduce_join(joined, axis=-1),
            "score": tf.reduce_sum(scores, axis=-1),
        }

    @tf.function(**text_signature())
    def n_best(text: Tensor) -> dict[str, Tensor]:
        translations, scores = search_texts(text, num_results)
        return {"translation": translations, "score": scores}

    @tf.function(**text_signature("int32", (None, None), "token_ids"))
    def search(token_ids: Tensor) -> dict[str, Tensor]:
        token_ids = _validated_ids(preset.model, token_ids)
        output_ids, scores = search_batch(token_ids, 1)
        return {"token_ids": output_ids[:, 0], "score": scores[:, 0]}

    module.functions = [translate, n_best, search]
    return module, {"serving_default": translate, "n_best": n_best, "token_ids": search}


def _search_for_xla(search_batch: Callable, source_limit: int | None) -> Callable:
    """Return a translator's search, compiled by XLA for batches that fit one of its shapes."""
    lengths = np.minimum(_XLA_LENGTHS, source_limit or _XLA_LENGTHS)

    def search(token_ids: Tensor, num_results: int, sentence_numbers: Any = None) -> Any:
        import tensorflow as tf

        rows, length = tf.unstack(tf.shape(token_ids))
        numbers = tf.range(rows) if sentence_numbers is None else sentence_numbers

        def padded() -> tuple[Tensor, Tensor]:
            more_rows, more = (
                tf.gather(sizes, tf.searchsorted(sizes, size[None]))[0] - size
                for sizes, size in ((_XLA_ROWS, rows), (lengths, length))
            )
            batch = tf.pad(token_ids, [[0, more_rows], [0, more]])
            context = copy_context()
            context.run(stages_for_xla.set, True)
            rest = num_results, (), None, tf.pad(numbers, [[0, more_rows]])
            outputs, scores = context.run(search_batch, batch, *rest)
            return outputs[:rows, :, : tf.shape(outputs)[2] - more], scores[:rows]

        fits = (rows <= _XLA_ROWS[-1]) & (length <= lengths[-1])
        given = token_ids, num_results, (), None, numbers
        return tf.cond(fits, padded, lambda: search_batch(*given))

    return search


def _lines(text: Tensor) -> Any:
    """Return the lines of strings `(n,)`, each with its break, as a ragged `(n, None)`."""
    import tensorflow as tf

    marked = tf.strings.regex_replace(text, _LINE_BREAK, rb"\1" + _LINE_END)
    return tf.strings.split(marked, _LINE_END)


def _without_edges(lines: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return what stands before the sentence of each line, the sentence, and what stands after."""
    import tensorflow as tf

    before = tf.strings.regex_replace(lines, rf"(?s)^({_BULLET}{WHITE_SPACE}).*$", r"\1")
    rest = tf.strings.substr(lines, tf.strings.length(before), tf.strings.length(lines))
    after = tf.strings.regex_replace(rest, rf"(?s)^.*?({WHITE_SPACE})$", r"\1")
    length = tf.strings.length(rest) - tf.strings.length(after)
    return before, tf.strings.substr(rest, tf.zeros_like(length), length), after


def _numbers(lines: Any) -> Tensor:
    """Return the number of each line, as `Translator` counts sentences."""
    import tensorflow as tf

    text = tf.cast(lines.value_rowids(), "int32")
    index = tf.range(tf.size(text)) - tf.cast(tf.gather(lines.row_starts(), text), "int32")
    return tf.bitwise.bitwise_and(text + index * 2**20, 2**31 - 1)


def _validated_ids(model: Any, token_ids: Tensor) -> Tensor:
    """Return token ids, after the checks that a search in Python makes."""
    import tensorflow as tf

    size, is_token = model.encoder.token_embedding.input_dim, token_ids != PAD_ID
    is_id = (token_ids >= 0) & (token_ids < size)
    is_gap = is_token[:, 1:] & ~is_token[:, :-1]
    checks = (
        (tf.reduce_all(is_id), f"`token_ids` must be from 0 to {size - 1}."),
        (~tf.reduce_any(is_gap), "`token_ids` must be padded with 0 at the end, and only there."),
    )
    with tf.control_dependencies([tf.debugging.Assert(is_right, [m]) for is_right, m in checks]):
        return tf.identity(token_ids)


def string_tokenizer(tokenizer: Tokenizer, add_eos: bool = True) -> Any:
    """Return the tokenizer as TensorFlow operations, which may add the end token."""
    import tensorflow as tf
    import tensorflow_text as tf_text

    if not hasattr(tokenizer, "proto"):
        raise UserError(
            "A SavedModel of strings needs a SentencePiece tokenizer, the only kind that "
            f"TensorFlow can run. Received: {type(tokenizer).__name__}"
        )
    # Two tokenizers of the same name become one when a SavedModel is loaded.
    name = f"sentencepiece_{tokenizer.fingerprint()[:16]}"
    return tf_text.SentencepieceTokenizer(
        model=tokenizer.proto, out_type=tf.int32, add_eos=add_eos, name=name
    )


def _sources(preprocessor: TranslationPreprocessor, limit: int | None, token_ids: Any) -> Any:
    """Return the ids that the model reads, from ragged ids that end with the end token.

    They have the prefix, are cut, and have no end token if sources have none.
    """
    token_ids = _after(preprocessor.source_prefix_ids, token_ids)
    if preprocessor.source_end:
        return _cut(token_ids, limit)
    return token_ids[:, :-1][:, :limit]


def _after(prefix: Sequence[int], token_ids: Any) -> Any:
    """Return ragged ids with the same ids before each row."""
    import tensorflow as tf

    if not prefix:
        return token_ids
    rows = tf.tile(tf.constant([prefix], "int32"), [token_ids.nrows(), 1])
    ragged: Any = tf.RaggedTensor
    return tf.concat([ragged.from_tensor(rows), token_ids], axis=1)


def _cut(token_ids: Any, limit: int | None) -> Any:
    """Cut each row of ragged ids to `limit`, and keep the end token at its end."""
    import tensorflow as tf

    if limit is None:
        return token_ids
    return tf.concat([token_ids[:, :-1][:, : limit - 1], token_ids[:, -1:]], axis=1)


def search_in_batches(
    token_ids: Tensor,
    is_searched: Tensor,
    search: Callable,
    batch_tokens: int,
    num_results: int = 1,
) -> tuple[Tensor, Tensor]:
    """Search in the batches that `batched_search` describes, as `search_stream` does in Python.

    Args:
        token_ids: ragged int32 tensor `(n, None)`.
        is_searched: bool tensor `(n,)`. The other rows get empty strings, with score 0.
        search: function of a batch, int32 `(rows, source)`, and the indices of its rows among the
            n. Returns strings and scores, each `(rows, num_results)`.
        batch_tokens: as in `rows_of_sizes`.
        num_results: the number of outputs per sentence.

    Returns:
        Strings and scores in the order of `token_ids`, each `(n, num_results)`.
    """
    import tensorflow as tf

    lengths = tf.where(is_searched, ops.cast(token_ids.row_lengths(), "int32"), 0)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    order, rest = tf.split(order, [tf.math.count_nonzero(is_searched, dtype="int32"), -1])
    rows_of_size = tf.constant(rows_of_sizes(batch_tokens))

    def is_unfinished(start: Tensor, texts: Tensor, scores: Tensor) -> Tensor:
        return start < tf.size(order)

    def next_batch(start: Tensor, texts: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
        size = tf.searchsorted(SIZES, lengths[order[start]][None])[0]
        end = start + rows_of_size[size]
        rows = order[start:end]
        new_texts, new_scores = search(tf.gather(token_ids, rows).to_tensor(), rows)
        return end, tf.concat([texts, new_texts], axis=0), tf.concat([scores, new_scores], axis=0)

    _, texts, scores = tf.while_loop(
        is_unfinished,
        next_batch,
        (tf.constant(0), tf.zeros([0, num_results], tf.string), tf.zeros([0, num_results])),
        shape_invariants=(tf.TensorShape([]), *[tf.TensorShape([None, num_results])] * 2),
        parallel_iterations=1,
    )
    nothing = [tf.size(rest), num_results]
    texts = tf.concat([texts, tf.fill(nothing, "")], axis=0)
    scores = tf.concat([scores, tf.zeros(nothing)], axis=0)
    back = tf.argsort(tf.concat([order, rest], axis=0))
    return tf.gather(texts, back), tf.gather(scores, back)


def without_breaks(texts: Tensor, sources: Tensor) -> Tensor:
    """Apply `text_lines.without_breaks` in TensorFlow, to strings `(n, num_results)` and `(n,)`."""
    import tensorflow as tf

    for character in BREAKS:
        is_kept = tf.strings.regex_full_match(sources, f"(?s).*{character}.*")[:, None]
        texts = tf.where(is_kept, texts, tf.strings.regex_replace(texts, character, " "))
    return texts


def _detokenize(tokenizer: Any, token_ids: Tensor) -> Tensor:
    """Convert ids `(batch, num_results, length)` to strings `(batch, num_results)`."""
    import tensorflow as tf

    num_results, length = token_ids.shape[1], tf.shape(token_ids)[2]
    flat_ids = tf.reshape(token_ids, [tf.shape(token_ids)[0] * num_results, length])
    # The text does not contain padding and end.
    texts = tokenizer.detokenize(tf.ragged.boolean_mask(flat_ids, flat_ids > END_ID))
    return tf.reshape(texts, [-1, num_results])
