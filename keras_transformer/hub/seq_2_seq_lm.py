"""KerasHub's tasks of our models, whose samplers are our searches."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops
from keras_hub import samplers

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.batched_search import batches_by_length, pad_to_few_shapes
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.constraints import ForcedPrefix, MinLength
from keras_transformer.decoding.resolve_search import resolve_search
from keras_transformer.decoding.sampling import Sampling
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.static_fields import (
    serialize,
    validate_integers,
    validate_padding,
)
from keras_transformer.errors import UserError
from keras_transformer.hub.backbone import (
    ForeignTransformerBackbone,
    ForeignTransformerSeq2SeqLMPreprocessor,
    ParserTransformerBackbone,
    ParserTransformerSeq2SeqLMPreprocessor,
    TransformerBackbone,
    TransformerSeq2SeqLMPreprocessor,
)
from keras_transformer.presets.format import search_from_config
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID

# The largest number of source slots searched at once.
_BATCH_TOKENS = 2048


class _NoEnd(MinLength):
    """Forbids the end token, so that each output is as long as its own limit."""

    def __init__(self):
        super().__init__(2**30)

    def validate_inputs(self, model: Any, encoder_token_ids: Any, limits: Any) -> None:
        """Accept every limit."""


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerSeq2SeqLM(keras_hub.models.Seq2SeqLM):
    """A `TransformerBackbone` and its preprocessor: strings in, strings out.

    ```python
    translator = keras_hub.models.Seq2SeqLM.from_preset("saved_models/multi30k_en_de")
    translator.generate(["A dog runs."])  # ["Ein Hund rennt."]
    translator.compile(sampler=kt.BeamSearch(beam_size=8, alpha=1.0))
    ```

    Args:
        backbone: a `TransformerBackbone`.
        preprocessor: a `TransformerSeq2SeqLMPreprocessor`, or None.
        search: the search of `compile(sampler="auto")`: a `kt.BeamSearch`, a `kt.Sampling`, or the
            configuration of one. Defaults to `kt.BeamSearch()`.
        metadata: dict of JSON values stored with a preset, such as the languages.
        task: name of the class of `keras_transformer` that the preset is for.
        **kwargs: further arguments of `keras_hub.models.Seq2SeqLM`.

    Raises:
        UserError: if `search` does not describe a search.
    """

    backbone_cls = TransformerBackbone
    preprocessor_cls = TransformerSeq2SeqLMPreprocessor

    def __init__(
        self,
        backbone: TransformerBackbone,
        preprocessor: TransformerSeq2SeqLMPreprocessor | None = None,
        search: Any = None,
        metadata: Mapping[str, Any] | None = None,
        task: str = "Translator",
        **kwargs: Any,
    ):
        # Only the tasks of this package read the tag dictionary and the shortlist of a preset.
        kwargs.pop("has_tag_dictionary", None)
        kwargs.pop("shortlist", None)
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.search = (
            search_from_config(search) if isinstance(search, dict) else search or BeamSearch()
        )
        self.metadata = metadata or {}
        self.task = task
        inputs = backbone.input
        super().__init__(inputs=inputs, outputs=backbone(inputs), **kwargs)

    def compile(
        self,
        optimizer: Any = "auto",
        loss: Any = "auto",
        *,
        weighted_metrics: Any = "auto",
        sampler: Any = "auto",
        **kwargs: Any,
    ) -> None:
        """Compile the model as `keras_hub.models.Seq2SeqLM` does, with a search as the sampler.

        Args:
            optimizer: as in KerasHub.
            loss: as in KerasHub.
            weighted_metrics: as in KerasHub.
            sampler: `"auto"` for the preset's own search; `"greedy"`, `"beam"`, `"random"`,
                `"top_k"`, `"top_p"`, or an object of one of these samplers of KerasHub, which is
                replaced by the corresponding search; a `kt.BeamSearch` or `kt.Sampling`.
            **kwargs: as in KerasHub.

        Raises:
            UserError: if there is no such search.
        """
        sampler = _as_search(sampler, self.search)
        super().compile(
            optimizer, loss, weighted_metrics=weighted_metrics, sampler=sampler, **kwargs
        )

    def quantize(self, mode: str | None = None, config: Any = None, **kwargs: Any) -> None:
        """Quantize the backbone: see `kt.Transformer.quantize`.

        Args:
            mode: `"int8"`.
            config: as for `kt.Transformer.quantize`.
            **kwargs: as for `kt.Transformer.quantize`.

        Raises:
            UserError: as `kt.Transformer.quantize`.
        """
        self.backbone.quantize(mode, config, **kwargs)
        # Compiled for the old weights.
        self.train_function = self.test_function = self.predict_function = None

    def generate(
        self,
        inputs: Any,
        max_length: int | None = None,
        stop_token_ids: Any = "auto",
        strip_prompt: bool = False,
    ) -> Any:
        """Search for outputs, as `generate` of `keras_hub.models.Seq2SeqLM`.

        Args:
            inputs: a string, a list of strings, a dict of `"encoder_text"` and `"decoder_text"`,
                or a `tf.data.Dataset`. The result of an empty list is an empty list.
            max_length: the largest number of tokens of an output, including the start token.
            stop_token_ids: as for `generate_step`.
            strip_prompt: must be False: an output contains its `"decoder_text"`.

        Raises:
            UserError: if `strip_prompt` is true, or a source is too long for learned positions.
        """
        if strip_prompt:
            raise UserError(
                "`strip_prompt` must be False: outputs contain their `decoder_text`. "
                f"Received: strip_prompt={strip_prompt!r}"
            )
        texts = inputs.get("encoder_text") if isinstance(inputs, dict) else inputs
        is_empty = isinstance(texts, list | tuple | np.ndarray) and len(texts) == 0
        if self.preprocessor is not None and is_empty:
            return []
        return super().generate(inputs, max_length, stop_token_ids)

    def make_generate_function(self) -> Callable:
        """Return `generate_step` for the batches of one call, with a running number of sentences.

        It is not compiled: a search compiles itself, one program per stage.
        """
        first_number = 0

        def generate(inputs, stop_token_ids=None):
            nonlocal first_number
            outputs = self.generate_step(inputs, stop_token_ids, first_number)
            first_number += len(outputs["decoder_token_ids"])
            return outputs

        return generate

    def generate_step(
        self,
        inputs: dict[str, Tensor],
        stop_token_ids: Sequence[int] | None = None,
        first_number: int = 0,
    ) -> dict[str, Tensor]:
        """Search for the outputs of a batch.

        Args:
            inputs: a dict of arrays, as returned by the preprocessor's `generate_preprocess`.
            stop_token_ids: the id of the end token; or None, with which all outputs continue to
                `max_length`, or to the limit of the search.
            first_number: the number of the first sentence in the call: see `kt.Sampling`.

        Returns:
            A dict of int32 `"decoder_token_ids"`, in the shape of the inputs' ids, and bool
            `"decoder_padding_mask"`, true up to and including the end token.

        Raises:
            UserError: if outputs are to end with other tokens, or if ids are not integers or have
                padding before a token.
        """
        source, prompts = (
            ops.convert_to_numpy(validate_integers(name, inputs[name]))
            for name in ("encoder_token_ids", "decoder_token_ids")
        )
        validate_padding("encoder_token_ids", source)
        mask = inputs.get("decoder_padding_mask")
        is_given = prompts != PAD_ID if mask is None else ops.convert_to_numpy(mask)
        prompts = np.where(is_given, prompts, PAD_ID)[:, 1:]
        most = prompts.shape[1]
        prompts = prompts[:, : is_given.sum(axis=1).max(initial=1) - 1]
        texts = None if self.preprocessor is None else self.preprocessor.texts
        prefix = 0 if texts is None else len(texts.target_prefix)
        added = 1 if texts is None else texts.num_added
        search = self._search(most, prompts.shape[1] - prefix, stop_token_ids)
        token_ids = np.zeros((len(source), 1 + most), "int32")
        token_ids[:, 0] = START_ID
        lengths = (source != PAD_ID).sum(axis=1)
        # A source without a token of its own has no translation.
        lengths = np.where(lengths > added, lengths, 0)
        for part, extra_length in self._by_extra_length(lengths, search.extra_length):
            search = dataclasses.replace(search, extra_length=extra_length)
            for rows in batches_by_length(part, _BATCH_TOKENS):
                numbers = first_number + rows
                outputs = self._search_batch(
                    search, source[rows], lengths[rows], prompts[rows], numbers
                )
                outputs = outputs[:, :most]
                token_ids[rows, 1 : 1 + outputs.shape[1]] = outputs
        return {"decoder_token_ids": token_ids, "decoder_padding_mask": token_ids != PAD_ID}

    def _search(self, most: int, prompt: int, stop_token_ids: Sequence[int] | None) -> Search:
        """Return a search whose outputs have at most `most` tokens after the start token."""
        search, constraints = self.sampler, self.sampler.constraints
        if stop_token_ids is None:
            constraints = (*constraints, _NoEnd())
        elif {*stop_token_ids} != {END_ID}:
            raise UserError(
                f"`stop_token_ids` must be None or the end token {END_ID}. "
                f"Received: stop_token_ids={stop_token_ids}"
            )
        length = max(1, min(search.extra_length + max(prompt, 0), most))
        return dataclasses.replace(search, extra_length=length, constraints=constraints)

    def _by_extra_length(
        self, lengths: np.ndarray, extra_length: int
    ) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the lengths of some sources, 0 for the others, and the `extra_length` of these
        sources.

        With learned positions, `extra_length` is smaller for a longer source.
        """
        max_length = self.backbone.config.max_length
        if max_length is None:
            yield lengths, extra_length
            return
        extra = np.clip(max_length - lengths, 1, extra_length)
        for value in np.unique(extra):
            yield np.where(extra == value, lengths, 0), int(value)

    def _search_batch(
        self,
        search: Search,
        source: np.ndarray,
        lengths: np.ndarray,
        prompts: np.ndarray,
        numbers: np.ndarray,
    ) -> np.ndarray:
        """Return the best outputs, an int array `(rows, n)`."""
        max_length = self.backbone.config.max_length
        batch = pad_to_few_shapes(
            [row[:length].tolist() for row, length in zip(source, lengths)],
            # A source that leaves no room is refused by the search.
            max_length and max(max_length - search.extra_length, lengths.max()),
            batch_tokens=_BATCH_TOKENS,
        )
        constraints = ()
        if prompts.shape[1]:
            # Rows of padding have no prompt.
            rows = np.zeros((len(batch), prompts.shape[1]), "int32")
            rows[: len(prompts)] = prompts
            constraints = (ForcedPrefix(rows, is_scored=False),)
        numbers = np.resize(numbers, len(batch))  # the numbers of padding do not matter
        token_ids, _ = search(self.backbone, batch, 1, constraints, sentence_numbers=numbers)
        return ops.convert_to_numpy(token_ids)[: len(source), 0]

    def get_config(self) -> dict[str, Any]:
        search = getattr(self, "sampler", None) or self.search
        return {
            **super().get_config(),
            "search": serialize(search),
            "metadata": dict(self.metadata),
            "task": self.task,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class ParserTransformerSeq2SeqLM(TransformerSeq2SeqLM):
    """A `TransformerSeq2SeqLM` of a `ParserTransformerBackbone`: sentences in, symbols out.

    Args:
        backbone: a `ParserTransformerBackbone`.
        preprocessor: a `TransformerSeq2SeqLMPreprocessor`.
        **kwargs: the other arguments of `TransformerSeq2SeqLM`.
    """

    backbone_cls = ParserTransformerBackbone
    preprocessor_cls = ParserTransformerSeq2SeqLMPreprocessor


# KerasHub's samplers as searches

# A class of KerasHub -> the options of the corresponding search.
_OPTIONS = {
    samplers.GreedySampler: lambda x: {"beam_size": 1, "alpha": 0.0},
    samplers.BeamSampler: lambda x: {"beam_size": x.num_beams, "alpha": 0.0},
    samplers.RandomSampler: lambda x: {"temperature": x.temperature, "seed": x.seed},
    samplers.TopKSampler: lambda x: {"temperature": x.temperature, "seed": x.seed, "top_k": x.k},
    samplers.TopPSampler: lambda x: {
        "temperature": x.temperature,
        "seed": x.seed,
        "top_k": x.k,
        "top_p": x.p,
    },
}


_UNSUPPORTED = (
    'Unsupported sampler. Expected "greedy", "beam", "random", "top_k", "top_p", a `kt.BeamSearch` '
    "or a `kt.Sampling`."
)


def _as_search(sampler: Any, default: Search) -> Search:
    """Return the search that corresponds to a sampler.

    Args:
        sampler: `"auto"` for the default; a name, a configuration or an object of one of KerasHub's
            samplers; or an argument of `resolve_search`.
        default: a `Search`, whose length and constraints are kept unless `sampler` has its own.

    Returns:
        A `Search`.

    Raises:
        UserError: if there is no such search.
    """
    if sampler == "auto":
        return default
    if isinstance(sampler, str | dict):
        try:
            sampler = samplers.get(sampler)
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{_UNSUPPORTED} Received: sampler={sampler!r}") from error
    if not isinstance(sampler, samplers.Sampler):
        return resolve_search(sampler, default)
    if type(sampler) not in _OPTIONS or getattr(sampler, "return_all_beams", False):
        raise UserError(f"{_UNSUPPORTED} Received: {type(sampler).__name__} with these options")
    options = _OPTIONS[type(sampler)](sampler)
    search_class = BeamSearch if "beam_size" in options else Sampling
    return search_class(
        **options, extra_length=default.extra_length, constraints=default.constraints
    )


@keras.saving.register_keras_serializable(package="keras_transformer")
class ForeignTransformerSeq2SeqLM(TransformerSeq2SeqLM):
    """A `TransformerSeq2SeqLM` of a `ForeignTransformerBackbone`.

    Args:
        backbone: a `ForeignTransformerBackbone`.
        preprocessor: a `TransformerSeq2SeqLMPreprocessor`.
        **kwargs: the other arguments of `TransformerSeq2SeqLM`.
    """

    backbone_cls = ForeignTransformerBackbone
    preprocessor_cls = ForeignTransformerSeq2SeqLMPreprocessor

    def __init__(
        self,
        backbone: ForeignTransformerBackbone,
        preprocessor: TransformerSeq2SeqLMPreprocessor | None = None,
        **kwargs: Any,
    ):
        super().__init__(backbone, preprocessor, **kwargs)
