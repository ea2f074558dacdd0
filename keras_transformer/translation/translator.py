import copy
import itertools
import math
import reprlib
import sys
import warnings
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer.data.language_check import LanguageCheck
from keras_transformer.data.prefixed_tokenizer import tag_tokens
from keras_transformer.data.text_lines import in_windows, without_breaks
from keras_transformer.decoding.constraints import ForcedPrefix
from keras_transformer.errors import UserError
from keras_transformer.options import from_keywords
from keras_transformer.reserved_ids import END_ID, UNKNOWN_ID
from keras_transformer.tasks.search_stream import search_stream
from keras_transformer.tasks.task import (
    Task,
    check_has_tokens,
    check_is_no_string,
    check_is_sentence,
)
from keras_transformer.validation import check_strings

_MOST_NAMED = 5


class SourceCheck(NamedTuple):
    """What a translator does not see of a sentence."""

    is_cut: bool  # it is longer than `max_source_length`
    is_unknown: bool  # the vocabulary knows nothing of it
    has_unknown: bool = False  # the vocabulary lacks characters of it


class Translator(Task):
    """Text in, text out: a tokenizer, a model and the search.

    ```python
    translator = Translator.from_preset("saved_models/multi30k_en_de")
    translator(["A dog runs."])  # ["Ein Hund rennt."]

    next(translator.n_best(["A dog runs."], 2))  # [("Ein Hund rennt.", -0.7), ("Ein ...", -1.1)]

    Translator.from_preset("saved_models/multi30k_en_de", beam_size=8, alpha=1.0)
    Translator.from_preset("saved_models/multi30k_en_de", search="random", top_p=0.9)
    ```

    A sentence of white space alone, or of which the tokenizer leaves nothing, is not searched: its
    translation is empty, of score 0. A translation has no line breaks and tabs that its sentence
    lacks: each is replaced by a space.

    Args:
        model: a `Transformer`.
        tokenizer: the `Tokenizer` the model was trained with; the target's, if there are two.
        metadata: dict of JSON values kept with a preset, such as the languages.
        batch_tokens: the largest number of source slots translated at once.
        search: a `BeamSearch`, a `Sampling`, or one of the names `"greedy"`,
            `"beam"`, `"random"`, `"top_k"` and `"top_p"`. Defaults to a beam search as in
            section 6.1.
        max_source_length: the most tokens of a source, its end token included. A longer one is cut:
            `check_sources` tells. None for no limit but that of a learned position table.
        source_tokenizer: the source's `Tokenizer`, with the ids of the model's source vocabulary.
            Defaults to `tokenizer`.
        source_prefix: tokens that are put before those of each source, such as that of a language:
            strings, each one token of `source_tokenizer`. They count in `max_source_length`.
        target_prefix: tokens that each output begins with: strings, each one token of `tokenizer`.
            They count in the output's length; they are left out of its text, and of its score,
            which is that of the rest, given them.
        source_end: whether sources end with the end token, as those that `train` makes do.
        **search_options: fields of the search that are to be others, such as `beam_size`, `alpha`
            and `extra_length`.

    Raises:
        UserError: if the search has no such option, an option is out of its range, or what is to be
            a token of a prefix is none.
    """

    def __init__(
        self,
        model,
        tokenizer,
        metadata=None,
        batch_tokens=2048,
        search=None,
        max_source_length=1024,
        source_tokenizer=None,
        source_prefix=(),
        target_prefix=(),
        source_end=True,
        **search_options,
    ):
        self.source_end = bool(source_end)
        self.source_tokenizer = tokenizer if source_tokenizer is None else source_tokenizer
        self._set_source_prefix(source_prefix)
        self.target_prefix = _tokens("target_prefix", target_prefix)
        self.target_prefix_ids = _ids_of("target_prefix", self.target_prefix, tokenizer)
        super().__init__(
            model, tokenizer, metadata, batch_tokens, search, max_source_length, **search_options
        )

    def _set_source_prefix(self, prefix):
        self.source_prefix = _tokens("source_prefix", prefix)
        self.source_prefix_ids = _ids_of("source_prefix", self.source_prefix, self.source_tokenizer)
        self.shortest_source = type(self).shortest_source + len(self.source_prefix)

    @classmethod
    def train(cls, train, val, test=None, **options):
        """Train a translator: vocabulary, model, checkpoints, average and preset (section 5).

        ```python
        train = kt.data.ParallelText.from_files("train.en", "train.de")
        val = kt.data.ParallelText.from_files("val.en", "val.de")
        translator = kt.Translator.train(train, val, steps=8000, output_dir="runs/x")
        ```

        Seeds and devices that it sets are the whole process's.

        Args:
            train: `kt.data.ParallelText` to train on, or a `kt.data.Mixture` of several. Also any
                list of pairs of strings: the languages are then "source" and "target".
            val: likewise, to validate on. If it is a `kt.data.TaggedText`, the translator puts
                these tags before each source: see `tagged`.
            test: likewise, to score at the end, for `results.json` and the model card.
            **options: the options of `kt.translation.TranslatorTrainingOptions` by their names,
                such as `variant`, `steps`, `batch_tokens`, `peak_learning_rate`, `dropout` and
                `seed`, with the recipe's defaults. Those used most:
                `output_dir`: folder for the tokenizer, checkpoints, logs and, in `model`, the
                preset. It must be given.
                `resume`: whether to resume from the newest checkpoint in that folder, exactly;
                without one the training starts.
                `overwrite`: whether to start again, and replace an earlier training there.

        Returns:
            A `Translator` with the trained model.

        Raises:
            UserError: if an option or a text is wrong, or if `output_dir` holds another training,
                or any without `resume` or `overwrite`.
            TrainingStopped: after SIGTERM or Ctrl-C, when a checkpoint is written.
        """
        from keras_transformer.translation.train_translator import (
            TranslatorTrainingOptions,
            train_translator,
        )

        options = from_keywords(TranslatorTrainingOptions, options)
        return train_translator(cls, train, val, test, options=options)[0]

    def tagged(self, *tags):
        """The translator that puts other tags before its sources, such as that of a language.

        ```python
        translator.tagged("<2fr>")(["A dog runs."])  # as of "<2fr> A dog runs."
        translator.tagged()(["<2fr> A dog runs.", "<2de> A dog runs."])  # what the text has

        opus_mt.tagged(">>fra<<")  # of a converted model: its token for the target language
        nllb.tagged("fra_Latn")  # and here for the source language
        ```

        Args:
            *tags: those that the model was trained with (`kt.data.TaggedText`), each a token of the
                source's vocabulary. None: sources are taken as they are. (The tokenizers of
                converted models read tags within a text as ordinary text.)

        Returns:
            A `Translator` with the same model, in place of whose `source_prefix` are the tags.

        Raises:
            UserError: if one is no token of the vocabulary.
        """
        _ids_of("tags", tags, self.source_tokenizer)
        other = copy.copy(self)
        other._set_source_prefix(tag_tokens(self.source_tokenizer, tags))
        return other

    def export(self, path, num_results=None, format="saved_model", **options):
        """Write the translator in a form that runs without this package.

        ```python
        translator.export("saved_model")  # on TensorFlow: strings in, strings out
        translator.export("ct2", format="ctranslate2", quantization="int8")
        ```

        Args:
            path: the folder to write: whole, or not at all.
            num_results: of a SavedModel, how many translations its signature `n_best` gives.
            format: `"saved_model"`, TensorFlow's, with tokenizer and search inside;
                `"ctranslate2"`, CTranslate2's; `"marian"`, HuggingFace's for its class
                `MarianMTModel`; or `"onnx"`, the encoder and a step of the decoder.
            **options: those of the function that writes the format, which says more:
                `export_translator`, `export_ctranslate2`, `export_marian` or `export_onnx` in the
                module of `keras_transformer.export` that is called as the format.

        Raises:
            UserError: if there is no such format or option, or the format cannot hold the model.
        """
        from keras_transformer.export.formats import export_as

        if num_results is not None:
            options["num_results"] = num_results
        export_as(self, path, format, **options)

    def _parts(self):
        parts, tokenizers = super()._parts(), {}
        if self.source_tokenizer is not self.tokenizer:
            tokenizers["source"] = self.source_tokenizer
        prefixes = {"source": self.source_prefix, "target": self.target_prefix}
        shown = {f"{side} begins": " ".join(tokens) for side, tokens in prefixes.items() if tokens}
        return {**parts, **tokenizers, **shown}

    @classmethod
    def _parts_of(cls, config):
        return {
            **super()._parts_of(config),
            "source_tokenizer": config.source_tokenizer,
            "source_prefix": config.source_prefix,
            "target_prefix": config.target_prefix,
            "source_end": config.source_end,
        }

    def _preset_parts(self):
        return {
            "source_tokenizer": self.source_tokenizer,
            "source_prefix": self.source_prefix,
            "target_prefix": self.target_prefix,
            "source_end": self.source_end,
        }

    def search_batch(self, token_ids, num_results, constraints=(), run=None, sentence_numbers=None):
        """As every `Task`'s; outputs begin with the ids of `target_prefix`."""
        prefix = self.target_prefix_ids
        if prefix:
            batch = ops.shape(token_ids)[0]
            rows = ops.broadcast_to(ops.convert_to_tensor([prefix], "int32"), (batch, len(prefix)))
            constraints = (ForcedPrefix(rows, is_scored=False), *constraints)
        return super().search_batch(token_ids, num_results, constraints, run, sentence_numbers)

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

        Progress is shown on a terminal, from the fifth second on, and elsewhere logged each minute.

        Args:
            sentences: iterable of strings.

        Returns:
            An iterator of pairs (translation, score) in the same order, with the score that the
            search gives it. Where it finds no output at all, as with constraints that leave none,
            the translation is empty and the score minus infinity.
        """
        return (best_of(results) for results in self.n_best(sentences, 1))

    def n_best(self, sentences, num_results):
        """As `translate`, with several translations of each sentence.

        Args:
            sentences: iterable of strings.
            num_results: how many translations to return, no more than the search's `beam_size`.

        Returns:
            An iterator of lists of pairs (translation, score), the best first. A list is shorter
            than `num_results` where there are no more outputs.

        Raises:
            UserError: if a sentence is not a string.

        Warns:
            UserWarning: once a call, if sentences have characters that the vocabulary lacks, are
                cut (see `check_sources`), or look like the language of the translations.
        """
        check_is_no_string(sentences, "translated")
        total = len(sentences) if hasattr(sentences, "__len__") else None
        if total is not None or not isinstance(sentences, Iterable):
            sentences = check_strings("sentences", sentences)  # before any is translated
        windows = self._warned_of(in_windows(sentences))
        results = self._search_windows(windows, num_results, total)
        return itertools.chain.from_iterable(results)

    def translate_windows(self, windows, num_results=1, first_number=0):
        """As `n_best`, for who reads the stream: what is searched together is given together.

        Args:
            windows: iterable of lists of strings, such as `line_windows` gives. The next list is
                asked for when the results of the one before have been taken.
            num_results: how many translations of each sentence to return.
            first_number: the number of the first sentence, where these are a part of a longer text
                from which other calls translate the rest. Samples depend on it: see `Sampling`.

        Returns:
            An iterator of lists, one for each window: for each of its sentences what `n_best`
            gives.
        """
        return self._search_windows(windows, num_results, None, first_number)

    def check_sources(self, sentences):
        """Tell what a translation will miss of its sentence.

        Args:
            sentences: list of strings.

        Returns:
            A list of `SourceCheck`.
        """
        check_is_no_string(sentences, "checked")
        most = self._most_tokens()
        return [
            SourceCheck(
                most is not None and len(ids) > most,
                self.source_tokenizer.is_unknown(ids),
                UNKNOWN_ID in ids,
            )
            for ids in self._token_ids(check_strings("sentences", sentences))
        ]

    def language_check(self):
        """What counts by their words or letters whether sources are in the language that the model
        translates from: a `LanguageCheck`. It finds nothing where the model has several directions,
        or its languages cannot be told apart so.
        """
        names = () if "tags" in self.metadata else ("source", "target")
        return LanguageCheck(*(self.metadata.get(name) for name in names))

    def source_ids(self, sentence):
        """The ids of a sentence as the model reads it: a list.

        Args:
            sentence: a string.

        Raises:
            UserError: if it is no string, or one without tokens.
        """
        check_is_sentence(sentence)
        (token_ids,) = self._encode([sentence])
        check_has_tokens(sentence, token_ids)
        return token_ids

    def search_sentence(self, sentence, num_results=1, run=None):
        """Search for the translations of one sentence.

        Args:
            sentence: a string.
            num_results: how many.
            run: what runs the search: see `search_batch`.

        Returns:
            The pair of the source's token ids, a list, and of what `search_batch` gives.

        Raises:
            UserError: if it is no string, or one without tokens.
        """
        token_ids = self.source_ids(sentence)
        return token_ids, self.search_batch(np.array([token_ids]), num_results, run=run)

    def output_ids(self, translation):
        """The ids of a translation as the model predicts it, with prefix and end token: a list.

        Args:
            translation: a string.
        """
        check_is_sentence(translation)
        (token_ids,) = self.tokenizer.encode([translation])
        return [*self.target_prefix_ids, *token_ids, END_ID]

    def texts_of(self, source, outputs):
        """Return the texts of outputs, without the prefix and without new line breaks and tabs.

        Args:
            source: the sentence that was translated, a string.
            outputs: list of the outputs' token ids, which may be padded.

        Returns:
            A list of strings. In place of each line break and tab that the source lacks there is a
            space, so that the translation of one line is one line.
        """
        texts = self.tokenizer.decode([ids[len(self.target_prefix_ids) :] for ids in outputs])
        return [without_breaks(text, source) for text in texts]

    def output_tokens(self, token_ids):
        """The tokens of outputs' ids, as the vocabulary spells them: a list of strings.

        Args:
            token_ids: iterable of ids, without padding.
        """
        return self.tokenizer.tokens_of(token_ids)

    def explain(self, sentence, translation=None):
        """Show how a sentence is translated: attention, alignment and, of a beam search, the beam.

        ```python
        translator.explain("A dog runs.")  # a notebook shows it
        translator.explain("A dog runs.").save("dog.html")
        ```

        Args:
            sentence: a string.
            translation: another translation than the search's, whose attention is to be shown.

        Returns:
            A `kt.visualization.Explanation`.

        Raises:
            UserError: if one of them is no string, or the sentence has no tokens.
        """
        from keras_transformer.visualization.explanation import explain_translation

        return explain_translation(self, sentence, translation)

    def _warned_of(self, windows):
        """The windows as they are; one warning, of the first that something is wrong with."""
        first, is_warned, language = 0, False, self.language_check()
        for window in windows:
            window = check_strings("sentences", window, first)
            if not is_warned:
                messages = self._parts_not_read(window, first), language.add_all(window)
                if message := " ".join(filter(None, messages)):
                    warnings.warn(message, UserWarning, stacklevel=_level_of_caller())
                    is_warned = True
            first += len(window)
            yield window

    def _parts_not_read(self, window, first):
        """A message of the sources that are not read whole; an empty one, if there are none."""
        found = {
            "characters that the vocabulary lacks in": [],
            f"more than {self.source_limit()} tokens in": [],
        }
        for index, check in enumerate(self.check_sources(window)):
            shown = f"sentences[{first + index}]={reprlib.repr(window[index])}"
            for sentences, is_found in zip(found.values(), (check.has_unknown, check.is_cut)):
                if is_found:
                    sentences.append(shown)
        parts = [
            f"{remark} {', '.join(sentences[:_MOST_NAMED])}"
            + (", ..." if len(sentences) > _MOST_NAMED else "")
            for remark, sentences in found.items()
            if sentences
        ]
        return f"Sources are not read whole: {'; '.join(parts)}." if parts else ""

    def _search_windows(self, windows, num_results, total, first_number=0):
        results = search_stream(
            windows,
            self._encode,
            lambda batch, _, numbers: self.search_batch(
                batch, num_results, sentence_numbers=numbers
            ),
            self.batch_tokens,
            self.source_limit(),
            total,
            self.model,
            first_number,
        )
        blank = [((), 0.0)] * num_results
        for window in results:
            yield [
                self._decode(text, blank if outputs is None else outputs)
                for text, outputs in window
            ]

    def _encode(self, sentences):
        most, prefix = self._most_tokens(), self.source_prefix_ids
        end = [END_ID] if self.source_end else []
        return [[*prefix, *ids[:most], *end] if ids else [] for ids in self._token_ids(sentences)]

    def _token_ids(self, sentences):
        token_ids = self.source_tokenizer.encode(sentences)
        # To a tokenizer, a rare kind of white space can be an unknown character.
        return [[] if text.isspace() else ids for text, ids in zip(sentences, token_ids)]

    def _most_tokens(self):
        """The most tokens of a source, without prefix and end token; None for no limit."""
        limit = self.source_limit()
        return None if limit is None else limit - self.source_end - len(self.source_prefix_ids)

    def _decode(self, source, outputs):
        texts = self.texts_of(source, [ids for ids, _ in outputs])
        return list(zip(texts, [score for _, score in outputs]))


def _level_of_caller():
    """The level at which `warnings.warn` names the line that called the package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("keras_transformer."):
        level, frame = level + 1, frame.f_back
    return level


def _tokens(name, tokens):
    if isinstance(tokens, str):
        raise UserError(
            f"`{name}` must be a list of tokens. Received one string, whose letters would be "
            f"tokens: {name}={tokens!r}"
        )
    return tuple(tokens)


def _ids_of(name, tokens, tokenizer):
    try:
        return tuple(tokenizer.ids_of(tokens))
    except UserError as error:
        raise UserError(f"`{name}` must be tokens of the vocabulary. {error}") from error


def best_of(results):
    """The first of a sentence's results; of none, an empty one."""
    return results[0] if results else ("", -math.inf)
