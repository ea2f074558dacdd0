import numbers

from keras_transformer.compilation_cache import keep_in_user_folder
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.resolve_search import resolve_search
from keras_transformer.decoding.static_fields import deserialize, serialize
from keras_transformer.errors import UserError
from keras_transformer.presets.format import PresetConfig
from keras_transformer.presets.registry import listed
from keras_transformer.presets.storage import load_preset, save_preset
from keras_transformer.progress import spinner
from keras_transformer.validation import positive_integer


class Task:
    """A model, its tokenizer and a search, kept in a preset folder; a base class.

    On JAX the process then keeps what it compiles for the next one: see
    `compilation_cache.keep_in_user_folder`.

    Args:
        model: a `Transformer`.
        tokenizer: the `Tokenizer` the model was trained with.
        metadata: dict of JSON values kept with a preset.
        batch_tokens: the largest number of source slots searched at once.
        search: a `BeamSearch`, a `Sampling`, or one of the names `"greedy"`, `"beam"`, `"random"`,
            `"top_k"` and `"top_p"`. Defaults to `default_search`.
        max_source_length: the most tokens of a source, its end token included, or None.
        **search_options: fields of the search that are to be others, such as `beam_size`.

    Attributes:
        search: the search, with its options.

    Raises:
        UserError: if the search has no such option, or an option is out of its range.
    """

    default_search = BeamSearch()
    shortest_source = 2  # a token and the end token

    def __init__(
        self,
        model,
        tokenizer,
        metadata,
        batch_tokens,
        search,
        max_source_length,
        **search_options,
    ):
        check_max_source_length(max_source_length, self.shortest_source)
        positive_integer("batch_tokens", batch_tokens)
        keep_in_user_folder()
        self.model = model
        self.tokenizer = tokenizer
        self.metadata = dict(metadata or {})
        self.batch_tokens = batch_tokens
        self.max_source_length = max_source_length
        self.search = resolve_search(search, self.default_search, **search_options)

    def __repr__(self):
        kind = " ".join([type(self).__name__, *self._languages()])
        return f"<{kind}: {self.model.count_params():,} parameters, {self.search}>"

    def summary(self, print_fn=None):
        """Print what the task is made of: model, tokenizer, search, limits and metadata.

        Args:
            print_fn: function that takes each line. Defaults to `print`.
        """
        print_fn = print_fn or print
        print_fn(" ".join([type(self).__name__, *self._languages()]))
        for name, value in self._parts().items():
            print_fn(f"  {name:<10} {value}")

    def _languages(self):
        languages = [self.metadata[side] for side in ("source", "target") if side in self.metadata]
        return ["-".join(map(str, languages))] if languages else []

    def _parts(self):
        """What `summary` tells: name -> value."""
        limit = self.source_limit()
        return {
            "model": self.model,
            "tokenizer": self.tokenizer,
            "search": self.search,
            "sources": "of any length" if limit is None else f"of at most {limit:,} tokens",
            "outputs": f"of at most {self.extra_length:,} tokens more than the source",
            "batches": f"of at most {self.batch_tokens:,} tokens",
            "metadata": listed(self.metadata),
        }

    @property
    def extra_length(self):
        """How many tokens longer than its source an output may be."""
        return self.search.extra_length

    @classmethod
    def from_preset(cls, path, dtype=None, search=None, **options):
        """Load a trained model.

        Args:
            path: a preset folder, such as `saved_models/multi30k_en_de`; or a name as of
                `preset_location.locate`: `"multi30k_en_de"` in a checkout,
                `"hf://user/repository"`, `"kaggle://user/model/keras/variation"`.
            dtype: dtype or dtype policy of the model.
            search: as for the class. Defaults to the preset's own.
            **options: further arguments of the class, options of the search among them.

        Raises:
            UserError: if the folder or a part of it is missing or damaged, or is of another task;
                if there is no such repository, or no network.
        """
        keep_in_user_folder()  # before the model is made: that compiles too
        with spinner("loading"):
            model, config = load_preset(path, cls.__name__, dtype=dtype)
        saved = cls.default_search if config.search is None else _search_of(path, config)
        search = resolve_search(search, saved)
        parts = {**cls._parts_of(config), **options}
        return cls(model, config.tokenizer, search=search, **parts)

    def save_to_preset(self, path, card=None, weights_dtype=None):
        """Write a preset folder: whole, or not at all.

        Args:
            path: the folder; one that stands there already is replaced.
            card: text of the model card, in Markdown. None keeps the card of the folder that is
                replaced, if it has one; an empty string leaves none.
            weights_dtype: `"float16"` for a file of half the size; the weights that are loaded from
                it are float32 again, but for the digits. Defaults to the weights' own.
        """
        config = PresetConfig(
            task=type(self).__name__,
            metadata=self.metadata,
            search=serialize(self.search),
            tokenizer=self.tokenizer,
            **self._preset_parts(),
        )
        save_preset(path, self.model, config, card, weights_dtype)

    @classmethod
    def _parts_of(cls, config):
        """Return the task's arguments from a `PresetConfig`, except tokenizer and search."""
        return {"metadata": config.metadata}

    def _preset_parts(self):
        """Return the further fields of the task's `PresetConfig`."""
        return {}

    def search_batch(self, token_ids, num_results, constraints=(), run=None, sentence_numbers=None):
        """Search for outputs: `(batch, source)` to `(token_ids, scores)`, as every `Search`.

        Args:
            token_ids: int array `(batch, source)`, padded with 0.
            num_results: how many outputs of each row.
            constraints: further constraints.
            run: what runs the search: a function of the search and of its call's arguments, such as
                 `decoding.beam_trace.replay`. Defaults to calling it.
            sentence_numbers: as in the call of a `Search`.

        Returns:
            `(token_ids, scores)`: int32 tensor `(batch, num_results, length)` and float32 tensor
            `(batch, num_results)`; or what `run` gives.
        """
        search = self.search_of_outputs()
        if run is None:
            return search(
                self.model, token_ids, num_results, constraints, sentence_numbers=sentence_numbers
            )
        return run(search, self.model, token_ids, num_results, constraints)

    def search_of_outputs(self):
        """The search, with what a task knows of its outputs."""
        return self.search

    def source_limit(self):
        """The most tokens of a source, its end token included; None for no limit.

        It is `max_source_length`, or less where a learned position table ends before.

        Raises:
            UserError: if `extra_length` leaves a source no room in the table.
        """
        max_length = self.model.config.max_length
        if max_length is None:
            return self.max_source_length
        if max_length - self.extra_length < self.shortest_source:
            raise UserError(
                f"The model learned max_length={max_length} positions, of which an output takes "
                f"extra_length={self.extra_length} and more: that leaves none to a source. Pass a "
                "smaller `extra_length`."
            )
        return min(self.max_source_length or max_length, max_length - self.extra_length)


def check_max_source_length(value, shortest=Task.shortest_source):
    if value is None:
        return
    if not isinstance(value, numbers.Integral) or value < shortest:
        prefix = f", after a prefix of {shortest - 2}" if shortest > 2 else ""
        raise UserError(
            f"`max_source_length` must be an integer, {shortest} or larger (a token and the end "
            f"token{prefix}), or None for no limit. Received: max_source_length={value}"
        )


def _search_of(path, config):
    try:
        return deserialize(config.search)
    except (UserError, TypeError) as error:  # a value of another kind than the option's
        raise UserError(f"{path} has a search that cannot be made: {error}") from error


def check_is_no_string(sentences, verb):
    if isinstance(sentences, str):
        raise UserError(
            f"Pass a list of sentences. Received one string, whose letters would be {verb} one by "
            f"one: {sentences[:60]!r}"
        )


def check_is_sentence(sentence):
    if not isinstance(sentence, str):
        raise UserError(f"Pass one sentence, a string. Received: {sentence!r}")


def check_has_tokens(sentence, token_ids):
    if not token_ids:
        raise UserError(
            "There is nothing to search for: the sentence is empty, has no token of the vocabulary "
            f"or, to a parser, is too long. Received: {str(sentence)[:60]!r}"
        )
