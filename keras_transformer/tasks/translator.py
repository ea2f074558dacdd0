from keras_transformer.data.tokenizer import END_ID
from keras_transformer.decoding.search import beam_search
from keras_transformer.tasks.search_stream import search_stream
from keras_transformer.tasks.task import Task, check_is_no_string


class Translator(Task):
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
        super().__init__(
            model, tokenizer, metadata, extra_length, batch_tokens, search, **search_options
        )

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
        check_is_no_string(sentences, "translated")
        return self._n_best(sentences, num_results)

    def _n_best(self, sentences, num_results):
        results = search_stream(
            sentences,
            self._encode,
            lambda batch, _: self.search_batch(batch, num_results),
            self.batch_tokens,
            self._max_source_length(),
            total=len(sentences) if hasattr(sentences, "__len__") else None,
        )
        for _, outputs in results:
            texts = self.tokenizer.decode([ids for ids, _ in outputs])
            yield list(zip(texts, [score for _, score in outputs]))

    def _encode(self, sentences):
        return [[*ids, END_ID] for ids in self.tokenizer.encode(sentences)]
