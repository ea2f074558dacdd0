import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import keras
from keras import ops

from keras_transformer.annotations import DType, Tensor
from keras_transformer.errors import UserError
from keras_transformer.layers.multi_head_attention import Cache, recorded_attention
from keras_transformer.layers.tensor_ops import PaddingMask, padding_mask
from keras_transformer.models.config import TransformerConfig
from keras_transformer.models.encoder_decoder import Decoder, Encoder, make_embeddings
from keras_transformer.models.layout import make_layout_map
from keras_transformer.models.low_rank import enable_lora, load_lora_weights, save_lora_weights
from keras_transformer.models.quantization import (
    as_policy_map,
    get_dtype_policy,
    note_slow_products,
    quantize_by_policy,
    quiet_quantization,
    validate_quantizable,
)
from keras_transformer.models.training_step import FusedTrainingStep
from keras_transformer.models.variants import get_variant, without_training


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(FusedTrainingStep):
    """The encoder-decoder of "Attention Is All You Need" (section 3).

    One matrix embeds the source, embeds the target and projects the decoder's output to logits
    (section 3.4). Padding is token id 0, or any negative id; the model computes its masks from the
    ids. Models trained elsewhere may need `kt.convert.ForeignTransformer`.

    ```python
    model = Transformer.from_variant("base", vocabulary_size=37000)
    logits = model({"encoder_token_ids": source_ids, "decoder_token_ids": target_ids})
    ```

    Args:
        vocabulary_size: size of the vocabulary that source and target share, or of the target's
            vocabulary.
        num_layers: N, the number of layers of each stack.
        hidden_dim: d_model, the size of embeddings and layer outputs.
        intermediate_dim: d_ff, the size of the inner layer of the feed-forward networks.
        num_heads: h, the number of attention heads.
        key_dim: d_k, the size of each head's queries and keys. Defaults to `hidden_dim //
            num_heads`.
        value_dim: d_v, the size of each head's values. Defaults to `key_dim`.
        dropout: P_drop, on the output of each sub-layer and on the sums of embeddings and positions
            (section 5.4).
        activation: the non-linearity of the feed-forward networks.
        position_encoding: `"sine"`, or `"learned"` (Table 3, row E).
        max_length: the number of learned positions; required with `"learned"`, and only valid with
            it.
        normalize_first: if true, layer normalization comes before each sub-layer (pre-norm) and
            once after each stack, in place of the paper's post-norm.
        layer_norm_epsilon: added to the variance in the layer normalizations.
        use_bias: whether the attention projections have biases. The paper's have none.
        attention_window: r, an odd number: in the encoder a position attends to the `r // 2` before
            it, to itself, and to the `r // 2` after it (restricted self-attention, section 4 and
            Table 1). Defaults to all positions. The decoder always attends to all earlier ones.
        source_vocabulary_size: size of the source's vocabulary, if the source has its own
            vocabulary or its own matrix. Defaults to one matrix for source and target (section
            3.4).
        tie_weights: whether the matrix that embeds the target also projects to logits (section
            3.4). If false, there is one more matrix.
        scale_embeddings: whether embeddings are multiplied by sqrt(d_model) (section 3.4).
        num_decoder_layers: N of the decoder. Defaults to `num_layers`.
        dtype: dtype or dtype policy of all layers, such as `"mixed_bfloat16"`. With
            `"int8_from_float32"` the model is quantized: see `quantize`.
        name: name of the model.
        trainable: whether training changes the weights.

    Call arguments:
        inputs: a dict of
            `"encoder_token_ids"`: int tensor `(batch, source)`, and
            `"decoder_token_ids"`: int tensor `(batch, target)`, the target shifted right: it begins
            with the start token.
        training: whether to apply dropout.

    Returns:
        Float32 tensor `(batch, target, vocabulary_size)`: the logits of the next tokens. It has the
        padding mask of `"decoder_token_ids"`, which Keras's losses and metrics read.

    Raises:
        UserError: if a size is not a positive integer, `num_heads` does not divide `hidden_dim`
            and `key_dim` is not given, `attention_window` is not odd, or arguments of positions
            do not fit `position_encoding`.
    """

    # A derived model may replace these classes.
    config_class = TransformerConfig
    encoder_class = Encoder
    decoder_class = Decoder
    # The name of the class of `keras_transformer.hub` that the JSON of a preset holds.
    backbone_name = "TransformerBackbone"
    # The dtype of a call's logits; None for the dtype that the layers compute in.
    logits_dtype = "float32"

    # Names and defaults are as in `TransformerConfig`; a test compares them.
    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int = 6,
        hidden_dim: int = 512,
        intermediate_dim: int = 2048,
        num_heads: int = 8,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.1,
        activation: str | dict | Callable = "relu",
        position_encoding: Literal["sine", "learned"] = "sine",
        max_length: int | None = None,
        normalize_first: bool = False,
        layer_norm_epsilon: float = 1e-6,
        use_bias: bool = False,
        attention_window: int | None = None,
        source_vocabulary_size: int | None = None,
        tie_weights: bool = True,
        scale_embeddings: bool = True,
        num_decoder_layers: int | None = None,
        dtype: DType = None,
        name: str | None = None,
        trainable: bool = True,
    ):
        arguments = locals()
        config = TransformerConfig(**{x: arguments[x] for x in TransformerConfig.names()})
        self._build_graph(config, dtype, name, trainable)

    def _build_graph(self, config, dtype, name, trainable):
        """Make the layers and the functional model, for this class and derived classes."""
        policy = as_policy_map(dtype)
        dtype = policy.default_policy

        # Layers
        source_token_embedding, token_embedding = make_embeddings(config, dtype)
        encoder = self.encoder_class(config, source_token_embedding, dtype)
        decoder = self.decoder_class(config, token_embedding, dtype)

        # Functional model
        encoder_token_ids = keras.Input((None,), dtype="int32", name="encoder_token_ids")
        decoder_token_ids = keras.Input((None,), dtype="int32", name="decoder_token_ids")
        encoder_sequence = encoder(encoder_token_ids)
        logits = decoder(decoder_token_ids, encoder_sequence, encoder_token_ids)
        if self.logits_dtype is None:
            logits = ops.cast(logits, dtype.compute_dtype)
        with_mask = PaddingMask(dtype=dtype, name="padding_mask")
        logits = with_mask([logits, decoder_token_ids])
        super().__init__(
            inputs={
                "encoder_token_ids": encoder_token_ids,
                "decoder_token_ids": decoder_token_ids,
            },
            outputs=logits,
            name=name,
            trainable=trainable,
        )

        # Attributes
        self.config = config
        self.dtype_policy = dtype
        self.encoder = encoder
        self.decoder = decoder
        self.with_mask = with_mask
        quantize_by_policy(self, policy)

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The hyperparameters of the model, as JSON values by name."""
        return self.config.to_dict()

    def __repr__(self):
        config = self.config
        source = config.source_vocabulary_size
        tokens = f"{config.vocabulary_size:,} tokens"
        return (
            f"<{type(self).__name__}: {config.num_layers} + {config.decoder_layers} layers, "
            f"d_model {config.hidden_dim}, d_ff {config.intermediate_dim}, "
            f"{config.num_heads} heads, {f'{source:,} source and {tokens}' if source else tokens}, "
            f"{self.count_params():,} parameters, {self.dtype_policy.name}>"
        )

    @classmethod
    def from_variant(cls, name: str, vocabulary_size: int, **overrides: Any) -> Self:
        """Return a model with random weights and the hyperparameters of a row of Table 3.

        Args:
            name: a key of `keras_transformer.variants`.
            vocabulary_size: size of the vocabulary that source and target share.
            **overrides: arguments of `Transformer` that replace values of the variant.

        Returns:
            A `Transformer`.

        Raises:
            UserError: if there is no such variant.
        """
        return cls(vocabulary_size, **{**without_training(get_variant(name)), **overrides})

    @classmethod
    def from_preset(cls, path: str | Path, dtype: DType = None) -> Self:
        """Load the trained model of a preset, without its tokenizer and search.

        Args:
            path: a preset folder, or another form that `Translator.from_preset` supports.
            dtype: dtype or dtype policy of the model.

        Returns:
            A model of this class.

        Raises:
            UserError: if the folder or a part of it is missing or damaged, the repository does
                not exist, or there is no network.
        """
        from keras_transformer.presets.storage import load_model

        return load_model(path, cls, dtype=dtype)

    @property
    def token_embedding(self) -> keras.layers.ReversibleEmbedding:
        """The layer that embeds the target and projects to logits."""
        return self.decoder.token_embedding

    def logit_factors(
        self, inputs: Mapping[str, Tensor], training: bool = False
    ) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor] | None]:
        """Return the decoder's output and the matrix E, whose product is the logits.

        Args:
            inputs: the dict of a call: int tensors `(batch, source)` and `(batch, target)`.
            training: whether to apply dropout.

        Returns:
            Float tensors `(batch, target, hidden_dim)` and `(vocabulary_size, hidden_dim)`, and a
            function of the true tokens that returns a further loss of each, or None.
        """
        source, target = inputs["encoder_token_ids"], inputs["decoder_token_ids"]
        encoded = self.encoder(source, training=training)
        sequence, added = self.decoder.sequence(target, encoded, source, training)
        return self.decoder.loss_factors(sequence, added)

    def encode(self, encoder_token_ids: Tensor, training: bool = False) -> Tensor:
        """Run the encoder stack.

        Args:
            encoder_token_ids: int tensor `(batch, source)`.
            training: whether to apply dropout.

        Returns:
            Float tensor `(batch, source, hidden_dim)`, with the padding mask for Keras's layers.
        """
        encoded = self.encoder(encoder_token_ids, training=training)
        return self.with_mask([encoded, encoder_token_ids])

    def decode(
        self,
        decoder_token_ids: Tensor,
        encoder_token_ids: Tensor,
        encoder_sequence: Tensor = None,
        cache: list[dict[str, Cache]] | None = None,
        cache_index: int | Tensor | None = None,
        positions: Tensor = None,
        self_attention_mask: Tensor = None,
        return_attention_scores: bool = False,
        added: Tensor = None,
        training: bool = False,
        output_rows: Sequence[Tensor] | None = None,
    ) -> Any:
        """Run the decoder stack, on whole targets or step by step.

        ```python
        cache = model.make_cache(model.encode(source_ids), length)
        for i in range(length):
            logits, cache = model.decode(ids[:, i:i + 1], source_ids, cache=cache, cache_index=i)
        ```

        Args:
            decoder_token_ids: int tensor `(batch, target)`: whole targets shifted right, or with
                `cache` the tokens from position `cache_index` on.
            encoder_token_ids: int tensor `(batch, source)`, for the padding mask of the source.
            encoder_sequence: float tensor `(batch, source, hidden_dim)`, the result of `encode`.
                Not needed with `cache`.
            cache: the result of `make_cache`, or of the step before.
            cache_index: integer scalar, the position of `decoder_token_ids` in the cache.
            positions: int tensor `(target,)`, `(1,)` if all positions are equal, or `(batch,
                target)`; with `cache` only. Defaults to the positions from `cache_index` on.
            self_attention_mask: boolean tensor that broadcasts to `(batch, target, length)`, true
                where a token may attend to a cached position; with `cache` only. Defaults to all
                positions up to its own.
            return_attention_scores: whether to also return the last layer's encoder-decoder
                attention weights; with `cache` only.
            added: float tensor `(batch, target, hidden_dim)` that is added to the embeddings; with
                `cache` only.
            training: whether to apply dropout; without `cache` only.
            output_rows: the result of `decoder.output_rows(token_ids)`, to compute only the logits
                of these tokens, `(batch, target, n)`; with `cache` only.

        Returns:
            Float32 logits `(batch, target, vocabulary_size)`; with `cache`, a tuple of the logits,
            the updated cache and, with `return_attention_scores`, float weights `(batch, num_heads,
            target, source)`.

        Raises:
            UserError: unless either `encoder_sequence`, or `cache` and `cache_index`, are given.
        """
        if encoder_sequence is not None and cache is None and cache_index is None:
            logits = self.decoder(decoder_token_ids, encoder_sequence, encoder_token_ids, training)
            return self.with_mask([logits, decoder_token_ids])
        if encoder_sequence is None and cache is not None and cache_index is not None:
            return self.decoder.step(
                decoder_token_ids,
                padding_mask(encoder_token_ids),
                cache,
                cache_index,
                added,
                positions,
                self_attention_mask,
                return_attention_scores,
                output_rows,
            )
        raise UserError(
            "Expected either `encoder_sequence`, to decode whole targets, or `cache` and "
            "`cache_index`, to decode step by step, and not both."
        )

    def attention(self, decoder_token_ids: Tensor, encoder_token_ids: Tensor) -> dict[str, Tensor]:
        """Compute the attention weights of every layer and head (section 3.2.3).

        Args:
            decoder_token_ids: int tensor `(batch, target)`: targets shifted right.
            encoder_token_ids: int tensor `(batch, source)`.

        Returns:
            A dict of float tensors `(batch, num_layers, num_heads, query, key)`: `"encoder"`, the
            encoder's self-attention; `"decoder"`, the decoder's; and `"cross"`, the encoder-decoder
            attention, `(..., target, source)`.
        """
        layers = {
            "encoder": [layer.self_attention for layer in self.encoder.layers],
            "decoder": [layer.self_attention for layer in self.decoder.layers],
            "cross": [layer.cross_attention for layer in self.decoder.layers],
        }
        with recorded_attention(itertools.chain(*layers.values())) as weights:
            encoded = self.encode(encoder_token_ids)
            self.decoder.sequence(decoder_token_ids, encoded, encoder_token_ids, training=False)
        # A derived class may call a layer several times.
        return {
            name: ops.stack([weights[layer].pop(0) for layer in some], axis=1)
            for name, some in layers.items()
        }

    def make_cache(
        self, encoder_sequence: Tensor, length: int | Tensor, beam_size: int = 1
    ) -> list[dict[str, Cache]]:
        """Return an empty cache for step-by-step decoding of up to `length` positions.

        Args:
            encoder_sequence: float tensor `(batch, source, hidden_dim)`, the result of `encode`.
            length: the largest number of target positions.
            beam_size: the number of tokens per position, one per hypothesis.

        Returns:
            A list with the keys and values of each layer, for `decode`:
            `{"self": (key, value), "cross": (key, value)}`, of shapes `(batch, num_heads, key_dim,
            tokens)` and `(batch, num_heads, tokens, value_dim)`, for `length * beam_size` tokens of
            the target and all tokens of the source.

        Raises:
            UserError: if `length` is larger than the number of learned positions.
        """
        max_length = self.config.max_length
        if max_length is not None and isinstance(length, int) and length > max_length:
            raise UserError(
                f"`length` must be at most max_length={max_length}, the number of learned "
                f"positions. Received: length={length}"
            )
        tokens = length * beam_size
        return [layer.make_cache(encoder_sequence, tokens) for layer in self.decoder.layers]

    def dense_layers(self) -> list[keras.layers.Dense]:
        """Return the projections of all attentions, and the layers of all feed-forward networks."""
        return [*self.encoder.dense_layers, *self.decoder.dense_layers]

    def quantizable_layers(self) -> list[keras.layers.Layer]:
        """Return the embeddings and all `Dense` layers."""
        embeddings = [self.encoder.token_embedding]
        if self.token_embedding is not self.encoder.token_embedding:
            embeddings.append(self.token_embedding)
        return [*embeddings, *self.dense_layers()]

    def quantize(
        self, mode: str | None = None, config: Any = None, filters: Any = None, **kwargs: Any
    ) -> None:
        """Convert the weights of embeddings, projections and feed-forward networks to integers.

        Each row of an embedding, and each column of a matrix, is rounded to 8 bits with its own
        scale. Inputs of products are rounded to 8 bits in the same way, and the products are
        integer products. On a CPU, such a model is faster than in float32 on JAX, and slower on
        TensorFlow and PyTorch. A quantized model translates, and is saved and loaded like any
        other. It cannot be trained: its weights are frozen. Quantization cannot be undone.

        ```python
        translator = kt.Translator.from_preset("saved_models/multi30k_en_de")
        translator.model.quantize("int8")
        translator.save_to_preset("int8")
        ```

        Args:
            mode: `"int8"`.
            config: None, or the default configuration of `"int8"`.
            filters: the layers to quantize, as for `keras.Model.quantize`: a regular expression of
                names, a list of regular expressions, or a function of a layer. Defaults to all.
            **kwargs: further arguments of `keras.Model.quantize`.

        Raises:
            UserError: if `mode` or `config` is not supported, or the model is quantized already
                or has LoRA.
        """
        validate_quantizable(self, mode, config)
        with quiet_quantization():
            super().quantize(mode, filters=filters, **kwargs)
        note_slow_products()
        self.trainable = False

    def enable_lora(
        self, rank: int, target_layer_names: Sequence[str] = ("query", "value")
    ) -> None:
        """Freeze the model, and add trainable low-rank matrices to some of its layers.

        ```
        x W  becomes  x (W + A B)
        ```

        with the frozen W `(inputs, outputs)`, and the trainable A `(inputs, rank)` and B `(rank,
        outputs)`. B begins with zeros, so the outputs do not change at first. Afterwards compile
        the model, because its trainable weights have changed, and train it as usual.

        `save_weights`, `save` and presets save the sums `W + A B` in place of W: a plain model
        without LoRA. Weights that are loaded into the model become W; A is kept, and B is set to
        zeros. `save_lora_weights` saves the matrices alone. To quantize the adapted model, save it,
        load it, and quantize the loaded model.

        Args:
            rank: the number of columns of A.
            target_layer_names: names of the layers to adapt in each attention and feed-forward
                network: `"query"`, `"key"`, `"value"`, `"output"` or `"intermediate"`.

        Raises:
            UserError: if an argument is not valid, the model has LoRA already, is quantized, or
                was made in the scope of a `tf.distribute` strategy that is not in scope.
        """
        enable_lora(self, rank, target_layer_names)

    def save_lora_weights(self, filepath: str | os.PathLike) -> None:
        """Write the matrices A and B alone.

        Args:
            filepath: the file to write, whose name ends with `.lora.h5`.

        Raises:
            UserError: if the name has another ending, or the model does not have LoRA.
        """
        save_lora_weights(self, filepath)

    def load_lora_weights(self, filepath: str | os.PathLike) -> None:
        """Load the matrices A and B, and enable LoRA if the model does not have it.

        The model must have the weights W that the matrices were trained with.

        Args:
            filepath: a file that `save_lora_weights` wrote.

        Raises:
            UserError: if the file is damaged, or was saved by a model of another shape or rank.
        """
        load_lora_weights(self, filepath)

    @staticmethod
    def get_layout_map(
        device_mesh: keras.distribution.DeviceMesh,
        model_parallel_dim_name: str = "model",
        data_parallel_dim_name: str = "batch",
    ) -> keras.distribution.LayoutMap:
        """Map the weights to devices, for `keras.distribution.ModelParallel` (JAX).

        ```python
        devices = keras.distribution.list_devices()
        mesh = keras.distribution.DeviceMesh((len(devices) // 2, 2), ("batch", "model"), devices)
        layout_map = Transformer.get_layout_map(mesh)
        keras.distribution.set_distribution(
            keras.distribution.ModelParallel(layout_map=layout_map, batch_dim_name="batch")
        )
        model = Transformer.from_variant("big", vocabulary_size=37000)
        ```

        Query, key, value and inner feed-forward kernels are split by columns, output kernels by
        rows, and the embeddings by tokens. So the size of the model dimension must divide
        `vocabulary_size` and `intermediate_dim`, and should divide `num_heads`.

        Args:
            device_mesh: the `keras.distribution.DeviceMesh`.
            model_parallel_dim_name: dimension of the mesh over which weights are split.
            data_parallel_dim_name: dimension of the mesh over which the batch is split.

        Returns:
            A `keras.distribution.LayoutMap`.

        Raises:
            UserError: if the mesh does not have these dimensions, or they are the same.
        """
        return make_layout_map(device_mesh, model_parallel_dim_name, data_parallel_dim_name)

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(get_dtype_policy(self)),
            **self.config.to_dict(),
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Self:
        return cls(**config)
