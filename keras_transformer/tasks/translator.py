import itertools

import numpy as np
from keras import ops

from keras_transformer.data.tokenizer import END_ID
from keras_transformer.decoding.search import beam_search
from keras_transformer.tasks.preset import load_preset, save_preset

# Sentences read ahead, sorted by length and translated together.
_WINDOW = 4096

# Seconds before progress is shown.
_PATIENCE = 5


class Translator:
    """Text in, text out: a tokenizer, a model and the search.

    ```python
    translator = Translator.from_preset("saved_models/multi30k_en_de")
    translator(["A dog runs."])  # ["Ein Hund rennt."]

    next(translator.n_best(["A dog runs."], 2))  # [("Ein Hund rennt.", -0.7), ("Ein ...", -1.1)]

    Translator.from_preset("saved_models/multi30k_en_de", beam_size=8, alpha=1.0)
    Translator.from_preset("saved_models/multi30k_en_de", search=kt.sample, top_p=0.9)
    ```

    Args:
        model: a `Transformer`.
        tokenizer: the `Tokenizer` the model was trained with.
        metadata: dict of JSON values kept with a preset, such as the languages.
        extra_length: how many tokens longer than its source a translation may be (section 6.1).
        batch_tokens: the largest number of source slots translated at once.
        search: `beam_search` or `sample`.
        **search_options: further arguments of `search`, such as `beam_size` and `alpha`.
    """

    def __init__(
        self,
        model,
        tokenizer,
        metadata=None,
        extra_length=50,
        batch_tokens=2048,
        search=beam_search,
        **search_options,
    ):
        self.model = model
        self.tokenizer = tokenizer
        self.metadata = dict(metadata or {})
        self.extra_length = extra_length
        self.batch_tokens = batch_tokens
        self.search = search
        self.search_options = search_options

    @classmethod
    def from_preset(cls, path, dtype=None, **options):
        """Load a trained translator.

        Args:
            path: a preset folder, such as `saved_models/multi30k_en_de`.
            dtype: dtype or dtype policy of the model.
            **options: `extra_length`, `batch_tokens`, `search` and its options.

        Raises:
            ValueError: if the folder or a part of it is missing or damaged.
        """
        return cls(*load_preset(path, cls.__name__, dtype=dtype), **options)

    def save_to_preset(self, path, card=""):
        """Write a preset folder: whole, or not at all.

        Args:
            path: the folder; one that stands there already is replaced.
            card: text of the model card, in Markdown.
        """
        save_preset(path, type(self).__name__, self.model, self.tokenizer, self.metadata, card)

    def export(self, path):
        """Write a TensorFlow SavedModel: see `keras_transformer.export.saved_model`."""
        from keras_transformer.export.saved_model import export_translator

        export_translator(self, path)

    def __call__(self, sentences):
        """Translate.

        Args:
            sentences: list of strings.

        Returns:
            The list of translations, in the same order.
        """
        return [translation for translation, _ in self.translate(sentences)]

    def translate(self, sentences):
        """Translate a stream of any length, holding only a few thousand sentences at a time.

        Progress is shown on standard error, if that is a terminal, from the fifth second on.

        Args:
            sentences: iterable of strings.

        Returns:
            An iterator of pairs (translation, score) in the same order, with the score that the
            search gives it.
        """
        return (results[0] for results in self.n_best(sentences, 1))

    def n_best(self, sentences, num_results):
        """As `translate`, with several translations of each sentence.

        Args:
            sentences: iterable of strings.
            num_results: how many translations to return, no more than the search's `beam_size`.

        Returns:
            An iterator of lists of pairs (translation, score), the best first. A list is shorter
            than `num_results` where there are no more outputs.
        """
        if isinstance(sentences, str):
            raise ValueError(
                "Pass a list of sentences. Received one string, whose letters would be translated "
                f"one by one: {sentences[:60]!r}"
            )
        return self._n_best(sentences, num_results)

    def search_batch(self, token_ids, num_results):
        """Search for outputs: `(batch, source)` to `(token_ids, scores)`, as `beam_search`."""
        return self.search(
            self.model,
            token_ids,
            extra_length=self.extra_length,
            num_results=num_results,
            **self.search_options,
        )

    def _n_best(self, sentences, num_results):
        from tqdm import tqdm

        total = len(sentences) if hasattr(sentences, "__len__") else None
        sentences = iter(sentences)
        options = {"total": total, "unit": " sentences", "delay": _PATIENCE, "leave": False}
        with tqdm(**options, disable=None) as progress:  # None: unless it is a terminal
            while window := list(itertools.islice(sentences, _WINDOW)):
                yield from self._translate_window(window, num_results, progress)

    def _translate_window(self, sentences, num_results, progress):
        token_ids = [[*ids, END_ID] for ids in self.tokenizer.encode(sentences)]
        lengths = np.array([len(ids) for ids in token_ids])
        results = [None] * len(sentences)
        for rows in batches_by_length(lengths, self.batch_tokens):
            batch = pad_to_few_shapes([token_ids[row] for row in rows], self._max_source_length())
            output_ids, scores = map(ops.convert_to_numpy, self.search_batch(batch, num_results))
            for row, ids, row_scores in zip(rows, output_ids, scores):
                is_there = row_scores > -np.inf
                texts = self.tokenizer.decode(ids[is_there])
                results[row] = list(zip(texts, row_scores[is_there].tolist()))
            progress.update(len(rows))
        return results

    def _max_source_length(self):
        """The longest source that leaves learned positions for its translation, or None."""
        max_length = self.model.hyperparameters["max_length"]
        return None if max_length is None else max_length - self.extra_length


def batches_by_length(lengths, batch_tokens):
    """Group sentences of about equal length, the longest first.

    Args:
        lengths: int array `(sentences,)`.
        batch_tokens: the largest number of rows times the padded length in a batch. A sentence that
            is longer has a batch of its own.

    Yields:
        Int arrays of sentence numbers.
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        rows = _few_sizes_below(max(1, int(batch_tokens // few_sizes(lengths[order[start]]))))
        yield order[start : start + rows]
        start += rows


def pad_to_few_shapes(token_ids, max_length=None):
    """Pad lists of ids to an int32 array whose sizes are such as `few_sizes` gives.

    A stream of odd lengths then makes few shapes, and JAX compiles few programs. Rows added are of
    padding alone; the search is done with them before it begins. The length is not padded beyond
    `max_length`.
    """
    longest = max(len(ids) for ids in token_ids)
    length = few_sizes(longest)
    if max_length is not None:
        length = max(longest, min(length, max_length))
    batch = np.zeros((few_sizes(len(token_ids)), length), "int32")
    for row, ids in enumerate(token_ids):
        batch[row, : len(ids)] = ids
    return batch


def few_sizes(size):
    """The smallest of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, ... that is not below `size`."""
    power = 1 << max(int(size) - 1, 0).bit_length()
    return power * 3 // 4 if power >= 4 and size <= power * 3 // 4 else power


def _few_sizes_below(size):
    """The largest of these sizes that is not above `size`."""
    power = 1 << (size.bit_length() - 1)
    middle = power + power // 2
    return middle if middle <= size else power
