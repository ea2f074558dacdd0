"""The systems to compare, which translate batches of token ids with the same weights.

All have these methods, of which only `run` is timed:
`prepare(sentences)`: convert lists of token ids without the end token to the input of `run`;
`run(batch)`: run beam search;
`token_ids(outputs)`: convert the output of `run` to lists of token ids with the end token;
`count_steps(batch)`: return the number of decoder steps of `run`.
"""

import tempfile
from dataclasses import dataclass
from unittest import mock

import keras
import numpy as np
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding import batch_compaction
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID


@dataclass(frozen=True)
class Search:
    """The search of all systems.

    An output has at most `extra_length` tokens more than its source. If `length` is given, it has
    exactly `length` tokens, including the end token.
    """

    beam_size: int
    alpha: float
    extra_length: int
    length: int | None = None

    def limits(self, sentences):
        """Return the smallest and the largest number of tokens of a batch."""
        longest = max(len(sentence) for sentence in sentences) + self.extra_length
        return (self.length or 1, longest)


def pad(sentences):
    """Convert lists of token ids to an int32 array `(batch, source)`, with end tokens."""
    batch = np.zeros((len(sentences), max(map(len, sentences)) + 1), "int32")
    for row, sentence in zip(batch, sentences):
        row[: len(sentence) + 1] = [*sentence, END_ID]
    return batch


class KerasTransformer:
    def __init__(self, model, search):
        self.name = f"keras_transformer on {keras.backend.backend()}"
        self.model = model
        self.search = search

    def prepare(self, sentences):
        return pad(sentences)

    def run(self, batch):
        search = self.search
        constraints = (kt.constraints.MinLength(search.length),) if search.length else ()
        beam_search = kt.BeamSearch(
            beam_size=search.beam_size,
            alpha=search.alpha,
            extra_length=search.extra_length,
            length_penalty="power",
            constraints=constraints,
        )
        token_ids, _ = beam_search(self.model, batch)
        return ops.convert_to_numpy(token_ids)[:, 0]

    def token_ids(self, outputs):
        return [[int(i) for i in row if i != PAD_ID] for row in outputs]

    def count_steps(self, batch):
        steps = []

        def noting_steps(*args, **options):
            stage = run_compiled(*args, **options)
            steps.append(int(stage.state.step))
            return stage

        with mock.patch.object(batch_compaction, "run_compiled", noting_steps):
            self.run(batch)
        return max(steps)


class CTranslate2:
    """CTranslate2 in float32, on `threads` threads.

    It divides scores by |y|^alpha, where |y| includes the end token. It stops when `beam_size`
    hypotheses have ended.
    """

    def __init__(self, model, pieces, search, threads):
        import ctranslate2

        from keras_transformer.export.to_ctranslate2 import ctranslate2_spec

        self.name = f"CTranslate2 {ctranslate2.__version__}"
        self.pieces = pieces
        self.ids = {piece: i for i, piece in enumerate(pieces)}
        self.search = search
        with tempfile.TemporaryDirectory() as folder:
            ctranslate2_spec(model, pieces).save(folder)
            self.translator = ctranslate2.Translator(
                folder, compute_type="float32", inter_threads=1, intra_threads=threads
            )

    def prepare(self, sentences):
        shortest, longest = self.search.limits(sentences)
        # It lets the end token come after so many others.
        lengths = {"min_decoding_length": shortest - 1, "max_decoding_length": longest}
        return [[self.pieces[i] for i in sentence] for sentence in sentences], lengths

    def run(self, batch, num_hypotheses=1):
        sentences, lengths = batch
        return self.translator.translate_batch(
            sentences,
            beam_size=self.search.beam_size,
            num_hypotheses=num_hypotheses,
            length_penalty=self.search.alpha,
            suppress_sequences=[[self.pieces[PAD_ID]], [self.pieces[START_ID]]],
            return_end_token=True,
            **lengths,
        )

    def token_ids(self, outputs):
        return [[self.ids[piece] for piece in output.hypotheses[0]] for output in outputs]

    def count_steps(self, batch):
        # A sentence's search stops with the hypothesis that makes the beam's number full.
        outputs = self.run(batch, num_hypotheses=self.search.beam_size)
        return max(len(hypothesis) for output in outputs for hypothesis in output.hypotheses)


class Transformers:
    """`generate` of HuggingFace's Marian model, with its default stopping rule.

    It divides scores by |y|^alpha, where |y| includes the end token. It uses a GPU if there is one.
    """

    def __init__(self, model, search, threads, dtype="float32"):
        import torch
        import transformers
        from marian import marian_model

        self.name = f"transformers {transformers.__version__} on torch {torch.__version__}"
        self.search = search
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = marian_model(model).to(device, getattr(torch, dtype))
        torch.set_num_threads(threads)

    def prepare(self, sentences):
        import torch
        from transformers import GenerationConfig

        token_ids = torch.from_numpy(pad(sentences)).long().to(self.model.device)
        shortest, longest = self.search.limits(sentences)
        config = GenerationConfig(
            num_beams=self.search.beam_size,
            length_penalty=self.search.alpha,
            min_new_tokens=shortest - 1,  # before the end token
            max_new_tokens=longest,
            suppress_tokens=[PAD_ID, START_ID],
            pad_token_id=PAD_ID,
            eos_token_id=END_ID,
            decoder_start_token_id=START_ID,
        )
        mask = (token_ids != PAD_ID).long()
        return {"input_ids": token_ids, "attention_mask": mask, "generation_config": config}

    def run(self, batch):
        return self.model.generate(**batch)

    def token_ids(self, outputs):
        # After the end there may be padding or more end tokens.
        rows = [row[1:] for row in outputs.tolist()]
        return [row[: row.index(END_ID) + 1] if END_ID in row else row for row in rows]

    def count_steps(self, batch):
        calls = []
        hook = self.model.model.decoder.register_forward_hook(lambda *_: calls.append(1))
        self.run(batch)
        hook.remove()
        return len(calls)
