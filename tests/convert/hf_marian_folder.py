"""Folders as transformers writes them: real configurations and tokenizers, random weights."""

import functools
import io
import itertools
import json

import numpy as np
import pytest
import sentencepiece

from tests.small_corpus import sentence_pairs

END, UNKNOWN = 0, 1

# Of every option that Marian's configuration has and inference asks for, each value at least twice.
_CHOICES = {
    "d_model": (16, 24, 20, 12),
    "encoder_attention_heads": (2, 4, 1),
    "encoder_layers": (1, 2, 3),
    "decoder_layers": (2, 1),
    "encoder_ffn_dim": (32, 20, 7),
    "decoder_ffn_dim": (32, 24),
    "activation_function": ("swish", "relu", "gelu", "silu", "tanh"),
    "scale_embedding": (True, False),
    "share_encoder_decoder_embeddings": (True, True, False),
    "tie_word_embeddings": (True, True, True, False),
    "vocab_size": (53, 60, 47, 71),
}


def random_config(seed):
    """A dict of Marian's options, and two of ours: whether the decoder has a start token of its
    own, and whether there are biases."""
    generator = np.random.default_rng(seed)
    config = {name: choices[generator.integers(len(choices))] for name, choices in _CHOICES.items()}
    config["decoder_attention_heads"] = config["encoder_attention_heads"]
    config["decoder_vocab_size"] = config["vocab_size"]
    if not config["share_encoder_decoder_embeddings"]:
        config["decoder_vocab_size"] = config["vocab_size"] - int(generator.integers(9))
    return {
        **config,
        "max_position_embeddings": 64,
        "has_start": bool(generator.integers(2)),
        "has_bias": bool(generator.integers(4)),
    }


@functools.cache
def spm(side):
    """A SentencePiece model of one made-up language."""
    return train_spm([pair[side] for pair in sentence_pairs(200, seed=side)], 60)


def train_spm(sentences, size):
    """A SentencePiece model with ids as OPUS-MT's have."""
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=proto,
        vocab_size=size,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    return proto.getvalue()


def pieces_of(proto):
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def vocabulary(protos, size=None, more=()):
    """Return token -> id: the end token, the unknown token, the pieces, and padding last."""
    pieces = dict.fromkeys(itertools.chain(*map(pieces_of, protos)))
    names = [piece for piece in pieces if piece not in ("<unk>", "<s>", "</s>")]
    names = [*more, *names]
    if size is not None:
        names += [f"more{i}" for i in range(size)]
        names = names[: size - 3]
    return {name: i for i, name in enumerate(["</s>", "<unk>", *names, "<pad>"])}


def write_folder(path, seed=0, protos=None, vocabularies=None, generation=None, **config):
    """A folder with a random model, and the model itself in PyTorch, ready to be asked.

    Args:
        path: the folder.
        seed: of the weights.
        protos: the two SentencePiece models.
        vocabularies: one dict or two.
        generation: dict of options of `generate`.
        **config: as `random_config` gives.
    """
    torch = pytest.importorskip("torch")
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    protos = protos or (spm(0), spm(1))
    has_start, has_bias = config.pop("has_start", False), config.pop("has_bias", True)
    if vocabularies is None:
        vocabularies = [vocabulary(protos, config["vocab_size"])]
        if config["vocab_size"] != config.get("decoder_vocab_size", config["vocab_size"]):
            vocabularies.append(vocabulary(protos[1:], config["decoder_vocab_size"]))
    target = vocabularies[-1]
    pad = target["<pad>"]
    start = pad - 1 if has_start else pad
    ids = {"pad_token_id": pad, "eos_token_id": target["</s>"], "decoder_start_token_id": start}
    model = MarianMTModel(MarianConfig(**config, **ids, forced_eos_token_id=None)).eval()
    _randomize(model, has_bias, seed)
    model.generation_config = GenerationConfig(
        **{**ids, "bad_words_ids": [[pad], [start]], **(generation or {})}
    )
    with torch.no_grad():
        model.save_pretrained(path)
    write_tokenizer(path, protos, vocabularies)
    return model


def write_tokenizer(path, protos, vocabularies, **config):
    for name, proto in zip(("source.spm", "target.spm"), protos):
        (path / name).write_bytes(proto)
    for name, ids in zip(("vocab.json", "target_vocab.json"), vocabularies):
        (path / name).write_text(json.dumps(ids), "utf-8")
    config = {
        "separate_vocabs": len(vocabularies) > 1,
        "tokenizer_class": "MarianTokenizer",
        **config,
    }
    (path / "tokenizer_config.json").write_text(json.dumps(config))


def _randomize(model, has_bias, seed):
    """Every weight random, so that no two can be exchanged; with logits that are no near ties."""
    torch = pytest.importorskip("torch")

    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" in name:
                continue
            if name.endswith("norm.weight"):
                weight.copy_(1 + 0.2 * torch.randn(weight.shape))
            elif weight.ndim == 1:
                weight.copy_(0.2 * has_bias * torch.randn(weight.shape))
            elif "embed" in name or "shared" in name or "lm_head" in name:
                weight.copy_(0.5 * torch.randn(weight.shape))
            else:
                weight.copy_(1.5 * weight.shape[1] ** -0.5 * torch.randn(weight.shape))
        # Else each token would be followed by itself, whose embedding is still in the sum.
        model.model.decoder.layers[-1].final_layer_norm.weight.mul_(-1)
        model.final_logits_bias.copy_(has_bias * torch.randn(model.final_logits_bias.shape))
        model.final_logits_bias[:, END] += 2.0 * has_bias  # so that outputs end
