"""Folders as transformers writes them, of random models that fairseq might have trained; and what
transformers' `generate` gives.
"""

import functools
import io
import json

import numpy as np
import pytest
import sentencepiece

import keras_transformer as kt
from keras_transformer.data.synthetic import generate
from tests.helpers import to_numpy

torch = pytest.importorskip("torch")

PAD, END, UNKNOWN = 1, 2, 3
FIRST = ["<s>", "<pad>", "</s>", "<unk>"]


def text(count=60, side=0):
    """Sentences of the built-in corpus: English, or German."""
    return [(pair.english, pair.german)[side] for pair in generate("train", count, seed=5)]


_SIZES = ("encoder_layers", "decoder_layers", "d_model", "encoder_attention_heads")
_SIZES += ("encoder_ffn_dim", "decoder_ffn_dim", "activation_function", "scale_embedding")
SHAPES = [
    (2, 2, 16, 4, 24, 24, "relu", True),
    (1, 3, 12, 2, 20, 28, "gelu", True),
    (3, 1, 8, 1, 16, 16, "silu", False),
    (1, 1, 24, 3, 7, 9, "relu", True),
    (2, 1, 4, 2, 5, 5, "gelu", False),
    (1, 2, 32, 8, 64, 32, "swish", True),
    (2, 2, 10, 5, 11, 13, "relu", False),
    (1, 1, 6, 3, 48, 48, "gelu", True),
]
# Real text has more than a vocabulary knows.
ODD_TEXT = [
    "",
    "   ",
    "A dog runs.",
    "Ein Hund läuft durch den Schnee!",
    " Two   spaces, and  one before.",
    "Unknown: ☃☃ snow☃man, 漢字 and Ω.",
    "ＦＵＬＬ ｗｉｄｔｈ, ﬁne… “quotes” – dash",
    "Don't; 3.14, 1,000 %, (a) [b] e.g. U.S. well-known & <tag> |",
    "A\ttab\u00a0and\u200bothers\u3000here",
]


@functools.cache
def sentencepiece_model(size, kind="bpe"):
    """The proto of a SentencePiece model as fairseq's: unknown 0, start 1, end 2."""
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text() + text(side=1)),
        model_writer=proto,
        vocab_size=size,
        model_type=kind,
        character_coverage=0.99,
        num_threads=1,
        minloglevel=2,
    )
    return proto.getvalue()


def pieces_of(proto):
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]


def write_model(folder, model_class, index, seed, end, tie=None, **config):
    """Write a model of random weights into a folder with transformers.

    Args:
        folder: path of the folder.
        model_class: its class in transformers.
        index: which of `SHAPES` it has.
        seed: of the weights.
        end: how likely the end token is.
        tie: function of the model, which makes some of its matrices one.
        **config: the options of its configuration that are not of its shape.

    Returns:
        The model.
    """
    shape = dict(zip(_SIZES, SHAPES[index], strict=True))
    shape["decoder_attention_heads"] = shape["encoder_attention_heads"]
    config = model_class.config_class(**shape, **config, max_position_embeddings=64)
    model = randomize(model_class(config), seed, end)
    if tie is not None:
        tie(model)
    model.generation_config.forced_eos_token_id = None
    model.save_pretrained(folder)
    return model


def randomize(model, seed, end):
    """Random weights of a model of transformers, with which a search has much to decide, and ends.

    Embeddings are small and the last normalization is large, or each token would be followed by
    itself for ever.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:
                continue
            parameter.normal_(generator=generator)
            if parameter.ndim == 2:
                parameter *= parameter.shape[-1] ** -0.5
            else:
                parameter *= 0.2
                parameter += "norm.weight" in name
        decoder = model.model.decoder
        norm = getattr(decoder, "layer_norm", None) or decoder.layers[-1].final_layer_norm
        norm.weight *= 8
        norm.bias *= 8
        for matrix in _vocabulary_matrices(model):
            matrix *= 0.4
            matrix[END] += end * norm.bias / norm.bias.norm()
            matrix[PAD] = 0.0  # as in all that are trained
    return model.eval()


def _vocabulary_matrices(model):
    words = ("shared", "embed_tokens", "lm_head", "output_projection")
    return [p for name, p in model.named_parameters() if any(word in name for word in words)]


def write_json(path, values):
    path.write_text(json.dumps(values, ensure_ascii=False), "utf-8")


def their_ids(size, copies_of_unknown=0):
    """Of each of our tokens: padding, start (a copy of the end token), end, unknown, the others."""
    return np.array([PAD, END, END, UNKNOWN, 0, *range(4, size), *copies_of_unknown * [UNKNOWN]])


def random_inputs(sizes, seed, batch=3):
    """Token ids of ours, source and target, with padding."""
    generator = np.random.default_rng(seed)
    lengths = [generator.integers(2, 9, batch) for _ in sizes]
    ids = [generator.integers(2, size, (batch, max(n))) for size, n in zip(sizes, lengths)]
    ids = [np.where(np.arange(max(n)) < n[:, None], x, 0) for x, n in zip(ids, lengths)]
    ids[1][:, 0] = 1
    return ids


def compare_logits(translator, theirs, target_rows, source_rows):
    """The largest difference of logits at tokens, on random ids; copies must have none."""
    source, target = random_inputs((len(source_rows), len(target_rows)), 0)
    inputs = {"encoder_token_ids": source, "decoder_token_ids": target}
    logits = to_numpy(translator.model({k: x.astype("int32") for k, x in inputs.items()}))
    their_source = torch.tensor(source_rows[source])
    with torch.no_grad():
        expected = theirs(
            input_ids=their_source,
            attention_mask=(their_source != PAD).long(),
            decoder_input_ids=torch.tensor(target_rows[target]),
            decoder_attention_mask=torch.tensor((target != 0).astype("int64")),
            use_cache=False,
        ).logits.numpy()[..., target_rows]
    is_copy = np.arange(len(target_rows)) == 1
    is_copy |= (target_rows == UNKNOWN) & (np.arange(len(target_rows)) > 3)
    assert (logits[..., is_copy] < -9000).all()
    real = target != 0
    return np.abs(logits - expected)[real][:, ~is_copy].max()


def check_searches(theirs, tokenizer, translator, source_rows, target_rows, alpha, **options):
    """Compare outputs and scores of greedy search and beam 4 with `generate`.

    Args:
        theirs: the model of transformers.
        tokenizer: its tokenizer.
        translator: what was made of them.
        source_rows: int array: their id of each of our tokens of the source.
        target_rows: the same of the target.
        alpha: the length penalty of the beam.
        **options: of `generate`.

    Returns:
        The share of the outputs that end.
    """
    sentences = [" ".join(s.split()[:3]) for s in text(8)]
    ours = translator.preprocessor.encode_sources(sentences)
    longest = max(map(len, ours))
    batch = np.array([ids + [0] * (longest - len(ids)) for ids in ours], "int32")
    ended = []
    for beam_size, power in ((1, 0.0), (4, alpha)):
        translator.search = kt.BeamSearch(
            beam_size, alpha=power, length_penalty="power", extra_length=6
        )
        found = map(to_numpy, translator.search_batch(batch, beam_size))
        for sentence, ids, token_ids, our_scores in zip(sentences, ours, *found, strict=True):
            source = tokenizer(sentence).input_ids
            assert source_rows[ids].tolist() == source
            outputs, scores = _generated(theirs, source, beam_size, power, **options)
            actual = [target_rows[row[row != 0]].tolist() for row in token_ids]
            assert actual == outputs
            np.testing.assert_allclose(our_scores, scores, rtol=1e-4, atol=1e-4)
            ended += [row[-1] == END for row in outputs]
    return np.mean(ended)


def _generated(theirs, source, beam_size, alpha, **options):
    """The outputs of `generate` for one source, without start token and padding, and their scores;
    of greedy search one.
    """
    result = theirs.generate(
        torch.tensor([source]),
        num_beams=beam_size,
        num_return_sequences=beam_size,
        length_penalty=alpha,
        early_stopping="never" if beam_size > 1 else False,
        max_new_tokens=len(source) + 5,
        suppress_tokens=[PAD],
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        output_logits=True,
        **options,
    )
    outputs = [[i for i in row[1:] if i != PAD] for row in result.sequences.tolist()]
    if beam_size > 1:
        return outputs, result.sequences_scores.tolist()
    # A forced token is given, and not scored.
    is_forced = "forced_bos_token_id" in options
    steps = list(zip(result.logits, outputs[0]))[is_forced:]
    return outputs, [sum(float(x[0].log_softmax(-1)[i]) for x, i in steps)]


def change_json(path, **values):
    """Change entries of a JSON file. None removes an entry."""
    config = {**json.loads(path.read_text("utf-8")), **values}
    write_json(path, {name: value for name, value in config.items() if value is not None})


def check_refused(convert, folder, word):
    """A folder is refused in one line that has the word."""
    with pytest.raises(kt.UserError) as error:
        convert(folder)
    assert word in str(error.value) and "\n" not in str(error.value)
