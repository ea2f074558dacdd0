import copy
import logging
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain
from pathlib import Path
from typing import Any, Self, get_args, overload

import numpy as np
from keras import ops

from keras_transformer.annotations import DType, Tensor
from keras_transformer.data.language_selection import (
    select,
    selectable_languages,
    validate_selected,
)
from keras_transformer.data.languages import LanguageVotes
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.data.text_lines import in_windows
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding.batched_search import search_stream
from keras_transformer.decoding.constraints import Constraint, ForcedPrefix
from keras_transformer.decoding.search import Search
from keras_transformer.models.transformer import Transformer
from keras_transformer.option_fields import from_keywords
from keras_transformer.presets.format import Preset
from keras_transformer.progress import messages_shown
from keras_transformer.protection.pieces import compiled
from keras_transformer.protection.spans import MarkedText
from keras_transformer.tasks.task import (
    Task,
    validate_has_tokens,
    validate_is_list,
    validate_sentence,
)
from keras_transformer.translation.checks import TranslationCheck, check_translations
from keras_transformer.translation.preparation import (
    Markup,
    prepare_texts,
    prepare_windows,
    read_pairs,
    validate_split,
)
from keras_transformer.translation.prepared_text import PreparedText, Sentence, assemble
from keras_transformer.translation.scoring import TranslationScore, score_pairs
from keras_transformer.validation import check_choice, check_strings, positive_integer

logger = logging.getLogger(__name__)

_OF_PRESET = "preset"


class Translator(Task):
    """A model with its preprocessor and search: texts in, translations out.

    ```python
    translator = Translator.from_preset("saved_models/multi30k_en_de")
    translator("A dog runs.")  # "Ein Hund rennt."
    translator(["A dog runs.", "Two men sit on a bench."])  # a list of two

    next(translator.n_best(["A dog runs."], 2))  # [("Ein Hund rennt.", -0.7), ("Ein ...", -1.1)]

    Translator.from_preset("saved_models/multi30k_en_de", beam_size=8, alpha=1.0)
    Translator.from_preset("saved_models/multi30k_en_de", search="random", top_p=0.9)
    ```

    A text may be a word, a sentence or a page. It is split into sentences, which are translated one
    by one, and put together again with what stood between them: white space, line breaks, bullets
    and numbers. The argument `split` of each method changes that:

    - `"sentences"`: see `kt.data.split_sentences`. A line break ends a sentence. A sentence that is
      longer than any of the training is divided between clauses.
    - `"lines"`: each line is translated as one sentence.
    - None: each text is translated as one sentence, as when a test set is scored. White space is
      not kept.

    Placeholders, addresses, tags and other parts that are not translated are taken out of what the
    model reads, and put back exactly: see `protecting`. A model that was trained with `protect`
    reads a reserved symbol in the place of each, except pairs of tags, and copies it. Other models
    read the parts themselves with `split=None`, unless markup or patterns are given.

    `split` defaults to the preset's own, which is `"sentences"` unless the model was trained on
    texts of another kind. The score of a text is the sum of its sentences' scores.

    A sentence without tokens, and with `split` one without letters, is not searched. Its score is
    0. A line break or tab in a translation becomes a space unless its sentence contains one too.

    Args:
        model: a `Transformer`.
        preprocessor: the `kt.data.TranslationPreprocessor` the model was trained with, or the
            `Tokenizer` that sources and targets share.
        metadata: dict of JSON values stored with a preset, such as the languages.
        batch_tokens: the largest number of source slots translated at once.
        search: a `BeamSearch`, a `Sampling`, or one of the names `"greedy"`,
            `"beam"`, `"random"`, `"top_k"` and `"top_p"`. Defaults to a beam search as in
            section 6.1.
        **options: attributes to replace: of the search, such as `beam_size`, `alpha` and
            `extra_length`, and of the preprocessor, such as `max_source_length`. The tokens of its
            `target_prefix` count in an output's length, but not in its score.

    Raises:
        UserError: if the search has no such option, an option is out of its range, or a prefix has
            a token that is not in the vocabulary.
    """

    markup: Markup | None = None
    kept_patterns: tuple[re.Pattern[str], ...] = ()

    preprocessor_options = (
        "source_tokenizer",
        "source_prefix",
        "target_prefix",
        "source_end",
        "max_source_length",
    )

    def __init__(
        self,
        model: Transformer,
        preprocessor: TranslationPreprocessor | Tokenizer,
        metadata: Mapping[str, Any] | None = None,
        batch_tokens: int = 2048,
        search: Search | str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, preprocessor, metadata, batch_tokens, search, **options)

    @property
    def source_tokenizer(self) -> Tokenizer:
        """The tokenizer of sources."""
        return self.preprocessor.source_tokenizer

    @overload
    def __call__(
        self,
        texts: str,
        source_lang: str | None = None,
        target_lang: str | None = None,
        split: str | None = _OF_PRESET,
        markup: Markup | None = None,
        protect: Iterable[str] = (),
    ) -> str: ...

    @overload
    def __call__(
        self,
        texts: Iterable[str],
        source_lang: str | None = None,
        target_lang: str | None = None,
        split: str | None = _OF_PRESET,
        markup: Markup | None = None,
        protect: Iterable[str] = (),
    ) -> list[str]: ...

    def __call__(
        self,
        texts: str | Iterable[str],
        source_lang: str | None = None,
        target_lang: str | None = None,
        split: str | None = _OF_PRESET,
        markup: Markup | None = None,
        protect: Iterable[str] = (),
    ) -> str | list[str]:
        """Translate a text, or a list of texts.

        Args:
            texts: a string, or a list of strings.
            source_lang: the language to translate from, for a model with several. Defaults to the
                translator's own.
            target_lang: the language to translate into: see `in_languages`.
            split: `"sentences"`, `"lines"` or None: see the class.
            markup: `"html"` or `"markdown"`: see `protecting`. Defaults to the translator's own.
            protect: list of regular expressions of further parts to keep, or of names of sets of
                them: see `protecting`.

        Returns:
            The translation of a string, or the list of translations, in the same order.
        """
        if isinstance(texts, str):
            return self([texts], source_lang, target_lang, split, markup, protect)[0]
        translator = self.in_languages(source_lang, target_lang)
        if markup is not None or protect:
            patterns = protect or self.kept_patterns
            translator = translator.protecting(markup or self.markup, patterns)
        return [translation for translation, _ in translator.translate(texts, split)]

    def translate(
        self, texts: Iterable[str], split: str | None = _OF_PRESET
    ) -> Iterator[tuple[str, float]]:
        """Translate a stream of any length, with a few thousand texts in memory at a time.

        A terminal shows progress from the fifth second on. Elsewhere it is logged each minute.

        Args:
            texts: iterable of strings.
            split: `"sentences"`, `"lines"` or None: see the class.

        Returns:
            An iterator of pairs (translation, score) in the same order, with the score of the
            search, or the sum of the scores of a text's sentences. If the search finds no output,
            for example because of constraints, the translation is empty and the score is minus
            infinity.
        """
        return (best_result(results) for results in self.n_best(texts, 1, split))

    def n_best(
        self, texts: Iterable[str], num_results: int, split: str | None = _OF_PRESET
    ) -> Iterator[list[tuple[str, float]]]:
        """Translate a stream, with several translations of each text.

        Args:
            texts: iterable of strings.
            num_results: the number of translations per text, at most the search's `beam_size`.
            split: `"sentences"`, `"lines"` or None: see the class.

        Returns:
            An iterator of lists of pairs (translation, score), the best first. A list is shorter
            than `num_results` if there are no more outputs. The translations of a text of several
            sentences are those with the largest sums of scores.

        Raises:
            UserError: if a text is not a string.

        Warns:
            UserWarning: once per call, if texts have characters that the vocabulary lacks, are cut
                (see `prepare`), or look like the language of the translations.
        """
        validate_is_list(texts, "translated")
        total = len(texts) if isinstance(texts, Sized) else None
        if total is not None:
            texts = check_strings("sentences", texts)  # before any is translated
        windows = prepare_windows(self, in_windows(texts), self._chosen_split(split))
        # In a progress bar, each text counts as a sentence, until more were translated.
        return chain.from_iterable(self._translate_windows(windows, num_results, total))

    def translate_units(self, units: Sequence[MarkedText]) -> list[MarkedText]:
        """Translate the units of a file.

        Args:
            units: list of `MarkedText`, whose spans are kept.

        Returns:
            A list of `MarkedText` with the same spans. A unit without a final mark, such as a
            heading, has a translation without one. It is empty if the search finds no output.
        """
        validate_is_list(units, "translated")
        units = list(units)
        split = self._chosen_split(_OF_PRESET)
        windows = prepare_windows(self, in_windows(units), split, same_ends=True)
        results = chain.from_iterable(self._translate_windows(windows, 1, len(units)))
        return [found[0][0] if found else MarkedText("") for found in results]

    def translate_windows(
        self,
        windows: Iterable[Sequence[Any]],
        num_results: int = 1,
        first_number: int = 0,
        split: str | None = _OF_PRESET,
        same_ends: bool = False,
    ) -> Iterator[list[list[tuple[Any, float]]]]:
        """Translate windows of a stream, each as soon as it is complete.

        Args:
            windows: iterable of lists of strings, such as the result of `line_windows`; or of
                `MarkedText`, whose translations are `MarkedText`, or `PreparedText`. The next list
                is read after the results of the list before were taken.
            num_results: the number of translations per text.
            first_number: the number of the first text, if other calls translate the texts before
                it. Samples depend on it: see `Sampling`.
            split: `"sentences"`, `"lines"` or None: see the class.
            same_ends: as for `prepare`.

        Returns:
            An iterator with one list per window, which holds the result of `n_best` for each text.
        """
        split = self._chosen_split(split)
        prepared = (prepare_texts(self, texts, split, same_ends=same_ends) for texts in windows)
        return self._translate_windows(prepared, num_results, None, first_number)

    def _translate_windows(
        self,
        windows: Iterable[Sequence[PreparedText]],
        num_results: int,
        total: int | None,
        first_number: int = 0,
    ) -> Iterator[list[list[tuple[Any, float]]]]:
        """Search for the translations of all sentences of a window, and assemble its texts."""
        num_results = positive_integer("num_results", num_results)
        validate_selected(self.preprocessor, self.metadata)
        prepared: deque[Sequence[PreparedText]] = deque()

        def sentences() -> Iterator[list[Sentence]]:
            number = first_number
            for texts in windows:
                prepared.append(texts)
                numbered = (text.numbered_sentences(i) for i, text in enumerate(texts, number))
                yield [*chain.from_iterable(numbered)]
                number += len(texts)

        def search(batch: np.ndarray, rows: Sequence[Sentence], _: Any) -> tuple[Tensor, Tensor]:
            # Rows after the sentences are padding.
            numbers = np.resize([sentence.number for sentence in rows], len(batch))
            return self.search_batch(batch, num_results, sentence_numbers=numbers)

        found = search_stream(
            self.model,
            sentences(),
            lambda rows: [sentence.token_ids for sentence in rows],
            search,
            self.batch_tokens,
            self.source_limit(),
            total,
        )
        for outputs in found:
            yield assemble(self, prepared.popleft(), outputs, num_results)

    def search_batch(
        self,
        token_ids: Tensor,
        num_results: int,
        constraints: Sequence[Constraint] = (),
        run: Callable | None = None,
        sentence_numbers: Tensor | None = None,
    ) -> Any:
        """Search for the outputs of a batch: see `Task.search_batch`.

        Outputs begin with the ids of `target_prefix`.
        """
        prefix = self.preprocessor.target_prefix_ids
        if prefix:
            batch = ops.shape(token_ids)[0]
            rows = ops.broadcast_to(ops.convert_to_tensor([prefix], "int32"), (batch, len(prefix)))
            constraints = (ForcedPrefix(rows, is_scored=False), *constraints)
        return super().search_batch(token_ids, num_results, constraints, run, sentence_numbers)

    def prepare(
        self, texts: Iterable[Any], split: str | None = _OF_PRESET, same_ends: bool = False
    ) -> list[PreparedText]:
        """Prepare texts for the model, by the rules of its language, for other methods.

        Parts that are not translated are taken out, the rest is split into sentences, and these
        are converted to ids.

        Args:
            texts: list of strings, `MarkedText` or `PreparedText`, which stay as they are.
            split: `"sentences"`, `"lines"` or None: see the class.
            same_ends: whether the translation of a sentence without a final mark, such as a
                heading, has none.

        Returns:
            A list of `PreparedText`.

        Raises:
            UserError: if there is no such way to split, or a text is not a string.
        """
        validate_is_list(texts, "prepared")
        return prepare_texts(self, texts, self._chosen_split(split), same_ends=same_ends)

    def texts_read(
        self,
        sources: Iterable[str],
        translations: Iterable[str | None],
        split: str | None = _OF_PRESET,
    ) -> tuple[list[str], list[Any]]:
        """Return sources and translations as the model reads them, each as one sentence.

        The parts that are not translated are taken out, or symbols stand for them: see
        `protecting`. A part of a translation that its source lacks remains.

        Args:
            sources: list of strings.
            translations: list of strings, one per source, or None if it is not known.
            split: as in the call that translates the sources.

        Returns:
            The pair of the new lists.
        """
        return read_pairs(self, sources, translations, self._chosen_split(split))

    def _chosen_split(self, split: str | None) -> str | None:
        """Return the way to split texts: the given one, or the preset's."""
        split = self.metadata.get("split", "sentences") if split == _OF_PRESET else split
        validate_split(split)
        return split

    def language_votes(self) -> LanguageVotes:
        """Return a counter of sources that are not in the language that the model translates from.

        It judges by words and letters. It finds nothing if the model has several directions, or if
        its languages cannot be distinguished in this way.
        """
        names = () if "tags" in self.metadata else ("source", "target")
        return LanguageVotes(*(self.metadata.get(name) for name in names))

    @classmethod
    def from_preset(
        cls,
        path: str | Path | Preset,
        dtype: DType = None,
        search: Search | str | None = None,
        source_lang: str | None = None,
        target_lang: str | None = None,
        quantization: str | None = None,
        **options: Any,
    ) -> Self:
        """Load a trained model: a preset, or another library's model.

        ```python
        Translator.from_preset("saved_models/multi30k_en_de")
        Translator.from_preset("downloads/marian_en_de", quantization="int8")
        nllb = Translator.from_preset("downloads/nllb")
        nllb(["A dog runs."], source_lang="eng_Latn", target_lang="fra_Latn")
        ```

        A model of Marian, M2M-100, NLLB-200, FSMT or CTranslate2 is recognized by its files, and
        converted by `kt.convert`, which names the forms that were tried. The conversion is kept in
        the user's cache (`~/.cache/keras-transformer/converted`), until the repository has another
        revision or the folder has other files. (`keras-transformer cache` lists and deletes
        conversions.)

        Args:
            path: a preset folder, its name or `"hf://user/repository"`; or the folder or `hf://`
                repository of another library's model; or a preset in memory, which the functions of
                `kt.convert` return.
            dtype: dtype or dtype policy of the model. It must be None for a preset in memory.
            search: as for the class. Defaults to the preset's own.
            source_lang: the language to translate from, for a model with several.
            target_lang: the language to translate into: see `in_languages`.
            quantization: `"int8"` to quantize the weights. Defaults to no quantization.
            **options: further arguments of the class, including options of the search.

        Raises:
            UserError: if the folder or a part of it is missing or damaged, or the preset is for
                another task; if the model's architecture is not supported; if the repository does
                not exist or cannot be reached; if the model does not have a language.
        """
        from keras_transformer.convert.conversion_cache import as_preset

        preset = path if isinstance(path, Preset) else as_preset(path)
        translator = super().from_preset(preset, dtype, search, **options)
        if quantization is not None:
            translator.model.quantize(quantization)
        return translator.in_languages(source_lang, target_lang)

    def languages(self, option: str) -> list[str]:
        """Return the languages that can be selected.

        Args:
            option: `"source_lang"` or `"target_lang"`.

        Returns:
            A list of codes, which is empty if the model has only one language on that side.
        """
        return selectable_languages(self.metadata, option)

    def in_languages(self, source_lang: str | None = None, target_lang: str | None = None) -> Self:
        """Return a translator of other languages, with the same model.

        ```python
        nllb.in_languages("eng_Latn", "fra_Latn")(["A dog runs."])
        opus_mt_en_gem.in_languages(target_lang="deu")
        ```

        Args:
            source_lang: the language to translate from, by the model's own code. None keeps it.
            target_lang: the language to translate into. None keeps it.

        Returns:
            A `Translator`.

        Raises:
            UserError: if the model does not have the language.
        """
        if source_lang is None and target_lang is None:
            return self
        other = copy.copy(self)
        other.preprocessor, other.metadata = select(
            self.preprocessor, self.metadata, source_lang=source_lang, target_lang=target_lang
        )
        return other

    def protecting(
        self, markup: Markup | None = None, patterns: Iterable[str | re.Pattern[str]] = ()
    ) -> Self:
        """Return a translator of texts with markup or with further parts that are not translated.

        ```python
        translator.protecting("html")("<p>A <b>dog</b> runs.</p>")
        translator.protecting(patterns=["Acme [A-Z]+"])("A man buys an Acme XL.")
        ```

        Args:
            markup: `"html"`, `"markdown"`, or None for plain text, in which placeholders, addresses
                and inline tags are kept.
            patterns: list of strings: regular expressions of further parts to keep, or names of
                sets of them. `"i18next"` stands for `<0>`, `<1/>` and `$t(key)`, and `"laravel"`
                for `:name`.

        Returns:
            A `Translator` with the same model.

        Raises:
            UserError: if there is no such markup, or a pattern is not a regular expression.
        """
        if markup is not None:
            check_choice("markup", markup, get_args(Markup))
        other = copy.copy(self)
        other.markup, other.kept_patterns = markup, compiled(patterns)
        return other

    def tagged(self, *tags: str) -> Self:
        """Return a translator that puts other tags before its sources.

        ```python
        translator.tagged("<2fr>")(["A dog runs."])  # translates "<2fr> A dog runs."
        translator.tagged()(["<2fr> A dog runs.", "<2de> A dog runs."])  # the texts contain the
        tags

        opus_mt.tagged(">>fra<<")  # a converted model: its token for the target language
        nllb.tagged("fra_Latn")  # and here for the source language
        ```

        Args:
            *tags: tags that the model was trained with (`kt.data.TaggedText`), each a token of the
                source's vocabulary. Without tags, sources are taken as they are. (The tokenizers of
                converted models read tags within a text as ordinary text.)

        Returns:
            A `Translator` with the same model, whose `source_prefix` is the tags.

        Raises:
            UserError: if a tag is not a token of the vocabulary.
        """
        other = copy.copy(self)
        other.preprocessor = self.preprocessor.tagged(*tags)
        return other

    @classmethod
    def train(
        cls, train: Any, val: Any, test: Any = None, *, verbose: bool = True, **options: Any
    ) -> Self:
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
            verbose: whether to show the progress and, at the end, the scores. On a terminal and in
                a notebook, a bar shows the interval, the updates, the loss and the time left.
                Elsewhere lines are logged, each minute and at the end of each interval. They are
                printed on standard error if the program has no `logging` handler.
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

        training_options = from_keywords(TranslatorTrainingOptions, options)
        with messages_shown(verbose):
            translator, report = train_translator(cls, train, val, test, options=training_options)
            logger.info("%s", report)
        return translator

    def export(
        self,
        path: str | Path,
        format: str = "saved_model",
        **options: Any,
    ) -> None:
        """Write the translator in a form that runs without this package.

        ```python
        translator.export("saved_model")  # on TensorFlow: strings in, strings out
        translator.export("ct2", format="ctranslate2", quantization="int8")
        ```

        Args:
            path: the folder to write, completely or not at all.
            format: `"saved_model"`, for TensorFlow, with tokenizer and search inside;
                `"ctranslate2"`, for CTranslate2; `"marian"`, for HuggingFace's class
                `MarianMTModel`; or `"marian_npz"`, for Marian itself.
            **options: arguments of the function that writes the format: see
                `keras_transformer.export`.

        Raises:
            UserError: if there is no such format or option, or the format cannot hold the model.
        """
        from keras_transformer.export.formats import export

        validate_selected(self.preprocessor, self.metadata)
        if format == "saved_model":
            options["search_batch"] = self.search_batch
            options["source_limit"] = self.source_limit()
            options["batch_tokens"] = self.batch_tokens
        export(self.to_preset(), path, format, **options)

    def source_ids(self, sentence: str) -> list[int]:
        """Return the ids of a sentence that the model reads.

        Args:
            sentence: a string.

        Raises:
            UserError: if the sentence is not a string or has no tokens.
        """
        validate_sentence(sentence)
        validate_selected(self.preprocessor, self.metadata)
        (token_ids,) = self.preprocessor.encode_sources([sentence], self.source_limit())
        validate_has_tokens(sentence, token_ids)
        return token_ids

    def search_sentence(
        self, sentence: str, num_results: int = 1, run: Callable | None = None
    ) -> tuple[list[int], Any]:
        """Search for the translations of one sentence.

        Args:
            sentence: a string.
            num_results: the number of translations.
            run: function that runs the search: see `search_batch`.

        Returns:
            The pair of the source's token ids, a list, and the result of `search_batch`.

        Raises:
            UserError: if the sentence is not a string or has no tokens.
        """
        token_ids = self.source_ids(sentence)
        return token_ids, self.search_batch(np.array([token_ids]), num_results, run=run)

    def output_ids(self, translation: str) -> list[int]:
        """Return the ids of a translation that the model predicts, with prefix and end token.

        Args:
            translation: a string.
        """
        validate_sentence(translation)
        return self.preprocessor.encode_targets([translation])[0]

    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        split: str | None = _OF_PRESET,
    ) -> list[TranslationScore]:
        """Score given translations, in one pass of the model over batches of pairs.

        ```python
        (score,) = translator.score(["A dog runs."], ["Ein Hund rennt."])
        score.score, score.perplexity, score.token_log_probs
        ```

        A score is the score that the search reports for the same token ids: its length penalty and
        coverage penalty count, and the tokens of `target_prefix` count in the length only. A text
        can be encoded to other ids than those of the search. Placeholders, tags and other parts
        that the model does not read are taken out of both texts, or read as symbols; only parts of
        a translation that its source lacks are scored. Constraints of the search do not count, so
        a score differs where a `RepetitionPenalty` has lowered a probability. The score of a
        `Sampling` is log P(y | x), whatever its temperature. A source without tokens has the score
        0 with an empty translation, and minus infinity with another.

        Args:
            sources: list of strings, each read as one sentence.
            targets: list of strings, one per source.
            split: as in the call that translates the sources. It decides whether placeholders are
                taken out: see the class.

        Returns:
            A list of `kt.translation.TranslationScore`, one per pair.

        Raises:
            UserError: if the numbers of sources and targets differ, one of them is not a string, or
                a target has more tokens than the positions that the model learned.
        """
        return score_pairs(self, sources, targets, split)

    def check_translations(
        self,
        sources: Iterable[str],
        translations: Iterable[str],
        split: str | None = _OF_PRESET,
    ) -> list[TranslationCheck]:
        """Report what seems to have gone missing, or to be repeated or changed, in translations.

        ```python
        sources = ["A dog runs. Two men sit on a bench."]
        print(translator.check_translations(sources, ["Ein Hund rennt."])[0])
        # The source has 2 sentences, and the translation has 1. ...
        ```

        The findings are about the number of sentences, sentences that the translation does not
        attend to, the length, repeated words, numbers, placeholders, and translations that equal
        the source. Their precision is stated in the guide. They come from the texts and from one
        pass of the model, as in `score`.

        Args:
            sources: list of strings.
            translations: list of strings, by this model or by somebody else.
            split: as for `score`.

        Returns:
            A list of `kt.translation.TranslationCheck`, one per pair, whose
            `findings` are in words.

        Raises:
            UserError: if the numbers of sources and translations differ, or one of them is not a
                string.
        """
        return check_translations(self, sources, translations, split)


def best_result(results: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """Return the first of a sentence's results, or an empty translation if there is none."""
    return results[0] if results else ("", -math.inf)
