"""A CTranslate2 Transformer as a `Translator`."""

import re

import numpy as np

from keras_transformer.convert.ctranslate2_architecture import architecture
from keras_transformer.convert.ctranslate2_files import read_files
from keras_transformer.convert.ctranslate2_vocabulary import vocabularies
from keras_transformer.convert.embedding_tables import Tables
from keras_transformer.convert.hf_checkpoint import find_folder
from keras_transformer.convert.weights import (
    assign,
    halves_to_interleaved,
    stack_places,
)
from keras_transformer.models.encoder_decoder import zero_embeddings
from keras_transformer.models.transformer import Transformer
from keras_transformer.translation.translator import Translator

_FILES = (("model.bin", "*.json", "*.txt", "*.md", "*.spm", "*.model"),)
_SOURCE, _TARGET = "encoder/embeddings_0/weight", "decoder/embeddings/weight"
_PROJECTION, _OUTPUT_BIAS = "decoder/projection/weight", "decoder/projection/bias"

# Parts of a layer, by the names of `stack_places`: the variable, and which of how many equal parts
# of its rows, since CTranslate2 keeps matrices that are multiplied with the same input as one.
_PARTS = {
    "self_attn.q_proj": ("self_attention/linear_0", 0, 3),
    "self_attn.k_proj": ("self_attention/linear_0", 1, 3),
    "self_attn.v_proj": ("self_attention/linear_0", 2, 3),
    "self_attn.out_proj": ("self_attention/linear_1", 0, 1),
    "encoder_attn.q_proj": ("attention/linear_0", 0, 1),
    "encoder_attn.k_proj": ("attention/linear_1", 0, 2),
    "encoder_attn.v_proj": ("attention/linear_1", 1, 2),
    "encoder_attn.out_proj": ("attention/linear_2", 0, 1),
    "fc1": ("ffn/linear_0", 0, 1),
    "fc2": ("ffn/linear_1", 0, 1),
}
_NORMS = {
    "self_attn_layer_norm": "self_attention/layer_norm",
    "encoder_attn_layer_norm": "attention/layer_norm",
    "final_layer_norm": "ffn/layer_norm",
}


def ctranslate2(source, source_prefix=(), target_prefix=(), source_end=None):
    """Read a CTranslate2 model of encoder and decoder.

    Text is split by the SentencePiece models of the folder (`tokenizer.spm`, or `source.spm` and
    `target.spm`, or `sentencepiece.model` or `sentencepiece.bpe.model` for both sides). Where there
    are none, the tokens are words: text has spaces between them, on both sides.

    Sinusoids in any of the usual forms become ours. What is stored in float16, bfloat16, int8 or
    int16 is computed in floats here.

    ```python
    translator = kt.convert.ctranslate2("aren-transliteration")
    translator(["آ ت ز م و ن"])  # ["a t z m o n"]
    ```

    Args:
        source: the folder, with `model.bin`; or `hf://user/repository`.
        source_prefix: tokens of its vocabulary that it wants before each source, such as that of a
            language.
        target_prefix: tokens that its outputs begin with. Where the model leaves it to its user
            which token the decoder starts with, it is the first of these.
        source_end: whether sources end with the end token. Defaults to whether CTranslate2 adds it;
            a model that was made from one of HuggingFace's wants it, and leaves it to its user.

    Returns:
        A `Translator`.

    Raises:
        UserError: if there is no such model, it is damaged, or it has what `Transformer` has not,
            such as relative positions.
    """
    folder = find_folder(source, _FILES)
    files = read_files(folder)
    parts = architecture(files)
    source_side, target_side = vocabularies(files, folder, target_prefix)
    tables = _tables(files.variables, source_side.order, target_side.order)
    with zero_embeddings():
        model = Transformer(**tables.hyperparameters(), **parts.hyperparameters)
    _assign(model, files.variables, parts, tables)
    if files.config["decoder_start_token"] is None:
        target_prefix = target_prefix[1:]  # It is the start token.
    if files.config["add_source_bos"]:
        source_prefix = (files.config["bos_token"], *source_prefix)
    is_one = source_side.tokenizer.proto == target_side.tokenizer.proto
    return Translator(
        model,
        target_side.tokenizer,
        source_tokenizer=None if is_one else source_side.tokenizer,
        source_prefix=source_side.pieces_of(source_prefix),
        target_prefix=target_side.pieces_of(target_prefix),
        source_end=files.config["add_source_eos"] if source_end is None else source_end,
    )


def _tables(variables, source_order, order):
    source = _TARGET if source_order is order else _SOURCE
    output = _TARGET if variables.are_equal(_TARGET, _PROJECTION) else _PROJECTION
    bias = None
    if _OUTPUT_BIAS in variables:
        bias = np.append(variables.array(_OUTPUT_BIAS), 0.0)
    size = order.rows.max() + 1

    def tensor(name):
        values = variables.array(name)
        # A row more than there are stands for zeros: see `ctranslate2_vocabulary.Side`.
        lacking = 0 if name == _SOURCE else size - len(values)
        return np.pad(values, ((0, lacking), (0, 0))) if lacking else values

    return Tables.of_names(tensor, (source, _TARGET, output), order, source_order, bias)


def _assign(model, variables, parts, tables):
    hidden_dim = model.config.hidden_dim
    order = halves_to_interleaved(hidden_dim) if parts.in_halves else None
    assign(stack_places(model), lambda name: _array(variables, name, parts), order)
    tables.assign(model, order)
    for stack in (model.encoder, model.decoder) if parts.tables else ():
        stack.position_encoding.embeddings.assign(parts.tables[stack.name])


def _array(variables, name, parts):
    """The weight of a name of `stack_places`."""
    stack, layer, part, kind = re.fullmatch(
        r"(\w+)\.(?:layers\.(\d+)\.)?(.+)\.(weight|bias)", name
    ).groups()
    scope = stack if layer is None else f"{stack}/layer_{layer}"
    if part not in _PARTS:
        leaf = {"weight": "gamma", "bias": "beta"}[kind]
        return variables.array(f"{scope}/{_NORMS.get(part, part)}/{leaf}")
    linear, index, count = _PARTS[part]
    size = variables.shape(f"{scope}/{linear}/weight")[0] // count
    rows = slice(index * size, (index + 1) * size)
    if kind == "bias" and f"{scope}/{linear}/bias" not in variables:
        return np.zeros(size, "float32")
    values = variables.array(f"{scope}/{linear}/{kind}", rows)
    if part.endswith("q_proj"):
        values *= _queries_factor(variables, f"{scope}/{linear.partition('/')[0]}", parts)
    return values


def _queries_factor(variables, attention, parts):
    """What queries are multiplied with there, in parts of our 1 / sqrt(d_k)."""
    hyperparameters = parts.hyperparameters
    head_dim = hyperparameters["key_dim"] or (
        hyperparameters["hidden_dim"] // hyperparameters["num_heads"]
    )
    scale = variables.scalar(f"{attention}/queries_scale", head_dim**-0.5)
    factor = np.float32(scale * head_dim**0.5)
    # Where it is the same but for rounding, the weights stay what they are.
    return np.float32(1.0) if np.isclose(factor, 1.0) else factor
