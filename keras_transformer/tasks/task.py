import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from keras_transformer.annotations import DType, Tensor
from keras_transformer.compilation_cache import keep_in_user_folder
from keras_transformer.convert import foreign_transformer  # noqa: F401  It registers its class.
from keras_transformer.data.preprocessor import TranslationPreprocessor, as_preprocessor
from keras_transformer.data.shortlist import Shortlist
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.constraints import Constraint
from keras_transformer.decoding.resolve_search import resolve_search
from keras_transformer.decoding.search import Search
from keras_transformer.errors import UserError
from keras_transformer.models.transformer import Transformer
from keras_transformer.presets.format import Preset
from keras_transformer.presets.storage import load_preset, save_preset, validate_task
from keras_transformer.progress import spinner
from keras_transformer.validation import check_strings, positive_integer


class Task:
    """Base class of a model with its preprocessor and search, stored together as a preset.

    On JAX, compiled programs are stored for later processes: see
    `compilation_cache.keep_in_user_folder`.

    Args:
        model: a `Transformer`.
        preprocessor: a `TranslationPreprocessor`, or the `Tokenizer` the model was trained with.
        metadata: dict of JSON values kept with a preset.
        batch_tokens: the largest number of source slots searched at once.
        search: a `BeamSearch`, a `Sampling`, or one of the names `"greedy"`, `"beam"`, `"random"`,
            `"top_k"` and `"top_p"`. Defaults to `default_search`.
        **options: attributes to replace: of the search, such as `beam_size`, and, as far as
            `preprocessor_options` names them, of the preprocessor, such as `max_source_length`.

    Attributes:
        preprocessor: the `TranslationPreprocessor`.
        search: the search, with its options.
        shortlist: the `kt.data.Shortlist` of the preset, or None. Searches only score its
            candidates. Assign None to score all tokens.

    Raises:
        UserError: if the search has no such option, or an option is out of its range.
    """

    default_search = BeamSearch()
    preprocessor_options = ("max_source_length",)
    shortlist: Shortlist | None = None

    def __init__(
        self,
        model: Transformer,
        preprocessor: TranslationPreprocessor | Tokenizer,
        metadata: Mapping[str, Any] | None,
        batch_tokens: int,
        search: Search | str | None,
        **options: Any,
    ) -> None:
        changes = {x: options.pop(x) for x in self.preprocessor_options if x in options}
        self.preprocessor = as_preprocessor(preprocessor, **changes)
        self.preprocessor.validate_prefixes()
        positive_integer("batch_tokens", batch_tokens)
        keep_in_user_folder()
        self.model = model
        self.metadata = dict(metadata or {})
        self.batch_tokens = batch_tokens
        self.search = resolve_search(search, self.default_search, **options)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of outputs, and of sources if they have no other."""
        return self.preprocessor.tokenizer

    def __repr__(self) -> str:
        kind = " ".join([type(self).__name__, *self._languages()])
        shortlist = f", {self.shortlist.name}" if self.shortlist else ""
        return f"<{kind}: {self.model.count_params():,} parameters, {self.search}{shortlist}>"

    def _languages(self) -> list[str]:
        languages = [self.metadata[side] for side in ("source", "target") if side in self.metadata]
        return ["-".join(map(str, languages))] if languages else []

    @property
    def extra_length(self) -> int:
        """The largest number of tokens by which an output may exceed its source."""
        return self.search.extra_length

    @classmethod
    def from_preset(
        cls,
        path: str | Path | Preset,
        dtype: DType = None,
        search: Search | str | None = None,
        **options: Any,
    ) -> Self:
        """Load a trained model.

        Args:
            path: a preset folder such as `saved_models/multi30k_en_de`, its name in a checkout
                (`"multi30k_en_de"`), or a repository: `"hf://user/repository"`; or a `Preset` that
                is in memory.
            dtype: dtype or dtype policy of the model. It must be None for a `Preset`.
            search: as for the class. Defaults to the preset's own.
            **options: further arguments of the class, including options of the search.

        Raises:
            UserError: if the folder or a part of it is missing or damaged, or the preset is for
                another task; if the repository does not exist or cannot be reached.
        """
        keep_in_user_folder()  # before the model is made: that compiles too
        if isinstance(path, Preset):
            preset = path
            validate_task("The model", preset.task, cls.__name__)
            if dtype is not None:
                raise UserError(
                    "`dtype` must be None for a preset in memory, whose model has its dtype. "
                    f"Received: dtype={dtype!r}"
                )
        else:
            with spinner("loading"):
                preset = load_preset(path, cls.__name__, dtype=dtype)
        search = resolve_search(search, preset.search or cls.default_search)
        arguments = {**cls._preset_arguments(preset), **options}
        task = cls(preset.model, preset.preprocessor, search=search, **arguments)
        task.shortlist = preset.shortlist
        return task

    def to_preset(self) -> Preset:
        """Return the parts of the task as a `Preset`, which shares the model."""
        return Preset(
            model=self.model,
            preprocessor=self.preprocessor,
            search=self.search,
            metadata=self.metadata,
            task=type(self).__name__,
            shortlist=self.shortlist,
        )

    def save_to_preset(
        self, path: str | Path, card: str | None = None, weights_dtype: str | None = None
    ) -> None:
        """Write a preset folder: completely, or not at all.

        Args:
            path: the folder. An existing preset is replaced; a folder with other files is refused.
            card: text of the model card, in Markdown. None keeps the card of a preset that is
                replaced; an empty string removes it.
            weights_dtype: `"float16"` for a file of half the size. Its weights are loaded as
                float32, with the precision of float16. Defaults to the dtype of the weights.

        Raises:
            UserError: if `path` holds anything but a preset of this package.
        """
        preset = dataclasses.replace(self.to_preset(), card=card)
        save_preset(path, preset, weights_dtype)

    @classmethod
    def _preset_arguments(cls, preset: Preset) -> dict[str, Any]:
        """Return the further arguments of the class that a preset holds."""
        return {"metadata": preset.metadata}

    def search_batch(
        self,
        token_ids: Tensor,
        num_results: int,
        constraints: Sequence[Constraint] = (),
        run: Callable | None = None,
        sentence_numbers: Tensor | None = None,
    ) -> Any:
        """Search for the outputs of a batch of sources.

        Args:
            token_ids: int array `(batch, source)`, padded with 0.
            num_results: the number of outputs per row.
            constraints: further constraints.
            run: function of the search and the arguments of its call that runs the search, such as
                `decoding.beam_trace.replay`. Defaults to calling the search.
            sentence_numbers: as in the call of a `Search`.

        Returns:
            The tuple `(token_ids, scores)`, an int32 tensor `(batch, num_results, length)` and a
            float32 tensor `(batch, num_results)`, or the result of `run`.
        """
        options: dict[str, Any] = {}
        if self.shortlist is not None:
            options["shortlist"] = self.shortlist
        if run is not None:
            return run(self.search, self.model, token_ids, num_results, constraints, **options)
        options["sentence_numbers"] = sentence_numbers
        return self.search(self.model, token_ids, num_results, constraints, **options)

    def output_tokens(self, token_ids: Iterable[int]) -> list[str]:
        """Return the tokens of an output, as the vocabulary spells them.

        Args:
            token_ids: iterable of ids, without padding.
        """
        return self.tokenizer.ids_to_tokens(token_ids)

    def source_limit(self) -> int | None:
        """Return the largest number of tokens of a source, including its end token, or None.

        It is the preprocessor's `max_source_length`, or less if a learned position table ends
        before.

        Raises:
            UserError: if `extra_length` leaves a source no room in the table.
        """
        max_length = self.model.config.max_length
        if max_length is None:
            return self.preprocessor.max_source_length
        shortest = len(self.preprocessor.source_prefix) + 2  # a token and the end token
        if max_length - self.extra_length < shortest:
            raise UserError(
                f"`extra_length` leaves no position for a source: the model learned "
                f"max_length={max_length} positions. Expected `extra_length` to be at most "
                f"{max_length - shortest}. Received: extra_length={self.extra_length}"
            )
        room = max_length - self.extra_length
        return min(self.preprocessor.max_source_length or room, room)


def validate_is_list(sentences: Any, verb: str) -> None:
    """Raise a `UserError` unless `sentences` is an iterable other than a string."""
    if not isinstance(sentences, Iterable):
        check_strings("sentences", sentences)
    if isinstance(sentences, str):
        raise UserError(
            f"`sentences` must be a list. Received one string, whose letters would be {verb} one "
            f"by one: {sentences[:60]!r}"
        )


def validate_sentence(sentence: Any) -> None:
    """Raise a `UserError` if a sentence is not a string."""
    if not isinstance(sentence, str):
        raise UserError(f"`sentence` must be a string. Received: sentence={sentence!r}")


def validate_has_tokens(sentence: Any, token_ids: Sequence[int]) -> None:
    """Raise a `UserError` if a sentence has no token ids to search with."""
    if not token_ids:
        raise UserError(
            "`sentence` must have a token of the vocabulary and, for a parser, must not be too "
            f"long. Received: sentence={str(sentence)[:60]!r}"
        )
