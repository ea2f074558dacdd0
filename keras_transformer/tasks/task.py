from keras_transformer.tasks.preset import load_preset, save_preset


class Task:
    """A model, its tokenizer and a search, kept in a preset folder; a base class.

    Args:
        model: a `Transformer`.
        tokenizer: the `Tokenizer` the model was trained with.
        metadata: dict of JSON values kept with a preset.
        extra_length: how many tokens longer than its source an output may be.
        batch_tokens: the largest number of source slots searched at once.
        search: `beam_search` or `sample`.
        **search_options: further arguments of `search`.
    """

    def __init__(
        self, model, tokenizer, metadata, extra_length, batch_tokens, search, **search_options
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
        """Load a trained model.

        Args:
            path: a preset folder, such as `saved_models/multi30k_en_de`.
            dtype: dtype or dtype policy of the model.
            **options: `extra_length`, `batch_tokens`, `search` and its options.

        Raises:
            ValueError: if the folder or a part of it is missing or damaged, or is of another task.
        """
        return cls(*load_preset(path, cls.__name__, dtype=dtype), **options)

    def save_to_preset(self, path, card=""):
        """Write a preset folder: whole, or not at all.

        Args:
            path: the folder; one that stands there already is replaced.
            card: text of the model card, in Markdown.
        """
        save_preset(path, type(self).__name__, self.model, self.tokenizer, self.metadata, card)

    def search_batch(self, token_ids, num_results, **inputs):
        """Search for outputs: `(batch, source)` to `(token_ids, scores)`, as `beam_search`."""
        return self.search(
            self.model,
            token_ids,
            extra_length=self.extra_length,
            num_results=num_results,
            **self.search_options,
            **inputs,
        )

    def _max_source_length(self):
        """The longest source that leaves learned positions for its output, or None."""
        max_length = self.model.hyperparameters["max_length"]
        return None if max_length is None else max_length - self.extra_length


def check_is_no_string(sentences, verb):
    if isinstance(sentences, str):
        raise ValueError(
            f"Pass a list of sentences. Received one string, whose letters would be {verb} one by "
            f"one: {sentences[:60]!r}"
        )
