import functools

import keras
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.layers.activations import get_activation, serialize_activation
from keras_transformer.layers.attention_record import recorded_attention
from keras_transformer.layers.padding_mask import PaddingMask, padding_mask
from keras_transformer.models.config_validation import check_hyperparameters, describe
from keras_transformer.models.encoder_decoder import Decoder, Encoder
from keras_transformer.models.initializers import embeddings_initializer
from keras_transformer.models.layout import make_layout_map
from keras_transformer.models.low_rank import LowRankAdaptation
from keras_transformer.models.quantization import (
    QuantizableModel,
    as_policy_map,
    policy_of,
    quantize_by_policy,
)
from keras_transformer.models.training_step import FusedTrainingStep
from keras_transformer.models.variants import TRAINING_ONLY, get_hyperparameters, get_variant
from keras_transformer.parsing.deterministic_attention import DeterministicAttention


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(QuantizableModel, LowRankAdaptation, FusedTrainingStep):
    """The encoder-decoder of "Attention Is All You Need" (section 3).

    One matrix embeds the source, embeds the target and projects the decoder's output to logits
    (section 3.4). Padding is token id 0, or any negative id; masks are made from the ids inside the
    model. Further options exist so that models trained elsewhere can be loaded: see `kt.convert`.

    ```python
    model = Transformer.from_variant("base", vocabulary_size=37000)
    logits = model({"encoder_token_ids": source_ids, "decoder_token_ids": target_ids})
    ```

    Args:
        vocabulary_size: size of the vocabulary that source and target share, or of the target's.
        num_layers: N, the number of layers of each stack.
        hidden_dim: d_model, the size of embeddings and layer outputs.
        intermediate_dim: d_ff, the size of the inner layer of the feed-forward networks.
        num_heads: h, the number of attention heads.
        key_dim: d_k, the size of each head's queries and keys. Defaults to `hidden_dim //
            num_heads`.
        value_dim: d_v, the size of each head's values. Defaults to `key_dim`.
        dropout: P_drop, on the output of each sub-layer and on the sums of embeddings and positions
            (section 5.4).
        attention_dropout: probability of dropping an attention weight. The paper uses none.
        activation: non-linearity of the feed-forward networks.
        position_encoding: `"sine"`, or `"learned"` (Table 3, row E).
        max_length: the number of learned positions; needed with `"learned"` and only there.
        normalize_first: if true, layer normalisation comes before each sub-layer (pre-norm) and
            once after each stack, in place of the paper's post-norm.
        layer_norm_epsilon: added to the variance in the layer normalisations.
        use_bias: whether the attention projections have biases. The paper's have none.
        attention_window: r, an odd number: in the encoder a position attends to the `r // 2` before
            it, to itself, and to the `r // 2` after it (restricted self-attention, section 4 and
            Table 1). Defaults to all positions, as the decoder always attends to all before.
        source_vocabulary_size: size of the source's vocabulary, if it has a vocabulary, or just a
            matrix, of its own. Defaults to one matrix for source and target (section 3.4).
        tie_weights: whether the matrix that embeds the target projects to logits too (section 3.4).
            If false, there is one more matrix.
        output_bias: whether a bias is added to the logits. The paper has none.
        scale_embeddings: whether embeddings are multiplied by sqrt(d_model) (section 3.4).
        max_wavelength: the sinusoids' wavelengths grow from 2π to this number times 2π (section
            3.5).
        first_position: what the first position counts as in the sinusoids.
        final_norm: whether each stack ends with a layer normalisation of its own. Defaults to one
            with `normalize_first`, and none without.
        num_decoder_layers: N of the decoder. Defaults to `num_layers`.
        decoder_intermediate_dim: d_ff of the decoder. Defaults to `intermediate_dim`.
        word_start_ids: with `leaf_ids`, where each target token of a kind stands for one word of
            the source, as in parsing: the decoder's input at each step has the vector of the next
            word added to it (`kt.parsing.DeterministicAttention`). These are the ids of the source
            tokens that begin a word. The paper attends by learned weights alone.
        leaf_ids: ids of the target tokens that stand for a word.
        untagged_leaf_id: one of the `leaf_ids`, which the decoder then reads and writes in place of
            each of them: which leaf it is, its tag, is predicted from the encoder's output of the
            word alone (`kt.parsing.WordTagger`). The model's output are the logits of both
            together, those of `decode` the decoder's; `tag` has the tags.
        tag_loss_weight: weight of the cross-entropy of tags in the loss. Defaults to 1 with an
            `untagged_leaf_id`, as part of the logits: then it weighs its gradient. Without one,
            there is no tagger by default; with a weight it has a loss beside that of the decoder,
            which goes on to predict tags itself.
        dtype: dtype or dtype policy of all layers, such as `"mixed_bfloat16"`. With
            `"int8_from_float32"` the model is made quantised: see `quantize`.
        name: name of the model.
        trainable: whether training changes the weights.

    Call arguments:
        inputs: a dict of
            `"encoder_token_ids"`: int tensor `(batch, source)`, and
            `"decoder_token_ids"`: int tensor `(batch, target)`, the target shifted right: it begins
            with the start token.
        training: whether to apply dropout.

    Returns:
        Float32 tensor `(batch, target, vocabulary_size)`: the logits of the next tokens, with the
        padding mask of `"decoder_token_ids"`, which Keras's losses and metrics read.

    Raises:
        UserError: if a size is not a positive integer, `num_heads` does not divide `hidden_dim`
            and `key_dim` is left out, `attention_window` is not odd, or `position_encoding` and
            other arguments of positions, or those of words and leaves, do not go together.
    """

    def __init__(
        self,
        vocabulary_size,
        num_layers=6,
        hidden_dim=512,
        intermediate_dim=2048,
        num_heads=8,
        key_dim=None,
        value_dim=None,
        dropout=0.1,
        attention_dropout=0.0,
        activation="relu",
        position_encoding="sine",
        max_length=None,
        normalize_first=False,
        layer_norm_epsilon=1e-6,
        use_bias=False,
        attention_window=None,
        source_vocabulary_size=None,
        tie_weights=True,
        output_bias=False,
        scale_embeddings=True,
        max_wavelength=10000,
        first_position=0,
        final_norm=None,
        num_decoder_layers=None,
        decoder_intermediate_dim=None,
        word_start_ids=None,
        leaf_ids=None,
        untagged_leaf_id=None,
        tag_loss_weight=None,
        dtype=None,
        name=None,
        trainable=True,
    ):
        policy = as_policy_map(dtype)
        dtype = policy.default_policy
        config = {
            "vocabulary_size": vocabulary_size,
            "num_layers": num_layers,
            "hidden_dim": hidden_dim,
            "intermediate_dim": intermediate_dim,
            "num_heads": num_heads,
            "key_dim": key_dim,
            "value_dim": value_dim,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "activation": serialize_activation(get_activation(activation)),
            "position_encoding": position_encoding,
            "max_length": max_length,
            "normalize_first": normalize_first,
            "layer_norm_epsilon": layer_norm_epsilon,
            "use_bias": use_bias,
            "attention_window": attention_window,
            "source_vocabulary_size": source_vocabulary_size,
            "tie_weights": tie_weights,
            "output_bias": output_bias,
            "scale_embeddings": scale_embeddings,
            "max_wavelength": max_wavelength,
            "first_position": first_position,
            "final_norm": final_norm,
            "num_decoder_layers": num_decoder_layers,
            "decoder_intermediate_dim": decoder_intermediate_dim,
            "word_start_ids": _plain(word_start_ids),
            "leaf_ids": _plain(leaf_ids),
            "untagged_leaf_id": untagged_leaf_id,
            "tag_loss_weight": tag_loss_weight,
        }
        check_hyperparameters(config)

        # Layers
        embedding_options = {
            "embeddings_initializer": embeddings_initializer(hidden_dim),
            "dtype": dtype,
        }
        token_embedding = keras.layers.ReversibleEmbedding(
            vocabulary_size,
            hidden_dim,
            tie_weights=tie_weights,
            name="token_embedding",
            **embedding_options,
        )
        source_token_embedding = token_embedding
        if source_vocabulary_size is not None:
            source_token_embedding = keras.layers.Embedding(
                source_vocabulary_size,
                hidden_dim,
                name="source_token_embedding",
                **embedding_options,
            )
        encoder = Encoder(config, source_token_embedding, dtype)
        decoder = Decoder(config, token_embedding, dtype)
        deterministic_attention = None
        if leaf_ids is not None:
            deterministic_attention = DeterministicAttention(
                word_start_ids, leaf_ids, dtype=dtype, name="deterministic_attention"
            )

        # Functional model
        encoder_token_ids = keras.Input((None,), dtype="int32", name="encoder_token_ids")
        decoder_token_ids = keras.Input((None,), dtype="int32", name="decoder_token_ids")
        encoder_sequence = encoder(encoder_token_ids)
        next_words = None
        if deterministic_attention is not None:
            next_words = deterministic_attention(
                encoder_sequence, encoder_token_ids, decoder_token_ids
            )
        logits = decoder(
            decoder_token_ids, encoder_sequence, padding_mask(encoder_token_ids), next_words
        )
        if untagged_leaf_id is not None:
            logits = decoder.tagger(logits, decoder.tag_log_probs(next_words))
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

        # Config
        self.hyperparameters = config
        self.dtype_policy = dtype
        self.encoder = encoder
        self.decoder = decoder
        self.deterministic_attention = deterministic_attention
        self.with_mask = with_mask
        quantize_by_policy(self, policy)

    # The dtype of a call's logits; None is the dtype that the layers compute in.
    logits_dtype = "float32"

    def __repr__(self):
        return describe(self)

    @classmethod
    def from_variant(cls, name, vocabulary_size, **overrides):
        """A model with random weights and the hyperparameters of a row of Table 3.

        Args:
            name: a key of `keras_transformer.variants`.
            vocabulary_size: size of the vocabulary that source and target share.
            **overrides: arguments of `Transformer` that replace the variant's.

        Returns:
            A `Transformer`.

        Raises:
            UserError: if there is no such variant.
        """
        return cls(vocabulary_size, **{**_of_model(get_variant(name)), **overrides})

    @classmethod
    def from_preset(cls, path, dtype=None):
        """The trained model of a preset, without its tokenizer and search.

        Args:
            path: a preset folder, or another name of a preset, as `Translator.from_preset` takes.
            dtype: dtype or dtype policy of the model.

        Returns:
            A model of this class.

        Raises:
            UserError: if the folder or a part of it is missing or damaged; if there is no such
                repository, or no network.
        """
        from keras_transformer.presets.storage import load_model

        return load_model(path, cls, dtype=dtype)

    @classmethod
    def from_options(cls, options, vocabulary_size, **overrides):
        """A model with random weights, as `ModelOptions` say.

        Args:
            options: `ModelOptions`.
            vocabulary_size: size of the vocabulary that source and target share.
            **overrides: arguments of `Transformer` that replace those of the options.

        Returns:
            A `Transformer`.

        Raises:
            UserError: if there is no such variant, or it cannot be scaled so.
        """
        sizes = _of_model(get_hyperparameters(options))
        return cls(vocabulary_size, **{**sizes, "dtype": options.precision, **overrides})

    @property
    def token_embedding(self):
        """The layer that embeds the target and projects to logits."""
        return self.decoder.token_embedding

    def logit_factors(self, inputs, training=False):
        """Two tensors whose product the logits are: the decoder's output and the matrix E that
        projects it; with an `output_bias`, each has one more column, and with an `untagged_leaf_id`
        one for each tag. Then what adds to the loss of each true token: a function of these, or
        None.

        Args:
            inputs: the dict of a call: int tensors `(batch, source)` and `(batch, target)`.
            training: whether to apply dropout.

        Returns:
            Float tensors `(batch, target, hidden_dim)` and `(vocabulary_size, hidden_dim)`, and a
            function or None.
        """
        source, target = inputs["encoder_token_ids"], inputs["decoder_token_ids"]
        encoded = self.encoder(source, training=training)
        next_words = self._next_words(encoded, source, target)
        sequence = self.decoder.sequence(
            target, encoded, padding_mask(source), next_words, training=training
        )
        factors = self.decoder.logit_factors(sequence)
        tagger = self.decoder.tagger
        if tagger is None:
            return *factors, None
        log_probs = self.decoder.tag_log_probs(next_words)
        if tagger.untagged_leaf_id is None:
            return *factors, functools.partial(tagger.losses, log_probs)
        return *tagger.factors(*factors, log_probs), None

    @property
    def needs_fused_steps(self):
        return self.decoder.tagger is not None and self.decoder.tagger.untagged_leaf_id is None

    def encode(self, encoder_token_ids, training=False):
        """Run the encoder stack.

        Args:
            encoder_token_ids: int tensor `(batch, source)`.
            training: whether to apply dropout.

        Returns:
            Float tensor `(batch, source, hidden_dim)`, with the padding mask that Keras's layers
            look for.
        """
        encoded = self.encoder(encoder_token_ids, training=training)
        return self.with_mask([encoded, encoder_token_ids])

    def decode(
        self,
        decoder_token_ids,
        encoder_token_ids,
        encoder_sequence=None,
        cache=None,
        cache_index=None,
        positions=None,
        self_attention_mask=None,
        return_attention_scores=False,
        word_vectors=None,
        next_words=None,
        training=False,
    ):
        """Run the decoder stack, on whole targets or step by step.

        ```python
        cache = model.make_cache(model.encode(source_ids), length)
        for i in range(length):
            logits, cache = model.decode(ids[:, i:i + 1], source_ids, cache=cache, cache_index=i)
        ```

        Args:
            decoder_token_ids: int tensor `(batch, target)`: whole targets shifted right, or with
                `cache` the tokens from position `cache_index` on.
            encoder_token_ids: int tensor `(batch, source)`; tells where the source is padded.
            encoder_sequence: float tensor `(batch, source, hidden_dim)`, what `encode` returns. Not
                needed with `cache`.
            cache: what `make_cache`, or the step before, returned.
            cache_index: integer scalar, where in the cache `decoder_token_ids` begin.
            positions: int tensor `(target,)`, `(1,)` if all are at the same, or `(batch, target)`;
                with `cache` only. Defaults to those from `cache_index` on.
            self_attention_mask: boolean tensor that broadcasts to `(batch, target, length)`, true
                where a token may attend to a cached position; with `cache` only. Defaults to all
                up to its own.
            return_attention_scores: whether to return the last layer's encoder-decoder attention
                weights too; with `cache` only.
            word_vectors: what the method of this name returns; with `cache` only, for a model with
                `leaf_ids`.
            next_words: int tensor `(batch, target)`, the number of leaves up to each of the
                `decoder_token_ids`; with `word_vectors`.
            training: whether to apply dropout; without `cache` only.

        Returns:
            Float32 logits `(batch, target, vocabulary_size)`; with `cache`, the tuple of these, the
            updated cache and, if wanted, float weights `(batch, num_heads, target, source)`. With
            an `untagged_leaf_id`, all other leaves are minus infinity.

        Raises:
            UserError: unless either `encoder_sequence`, or `cache` and `cache_index`, are given; if
                `word_vectors` and `next_words` are missing beside a `cache`.
        """
        mask = padding_mask(encoder_token_ids)
        if encoder_sequence is not None and cache is None and cache_index is None:
            vectors = self._next_words(encoder_sequence, encoder_token_ids, decoder_token_ids)
            logits = self.decoder(
                decoder_token_ids, encoder_sequence, mask, vectors, training=training
            )
            return self.with_mask([logits, decoder_token_ids])
        if encoder_sequence is None and cache is not None and cache_index is not None:
            return self.decoder.step(
                decoder_token_ids,
                mask,
                cache,
                cache_index,
                self._next_words_of_step(word_vectors, next_words),
                positions,
                self_attention_mask,
                return_attention_scores,
            )
        raise UserError(
            "Pass `encoder_sequence` to decode whole targets, or `cache` and `cache_index` to "
            "decode step by step, and not both."
        )

    def word_vectors(self, encoder_sequence, encoder_token_ids):
        """What step-by-step decoding of a model with `leaf_ids` needs beside its cache.

        Args:
            encoder_sequence: float tensor `(batch, source, hidden_dim)`, what `encode` returns.
            encoder_token_ids: int tensor `(batch, source)`.

        Returns:
            Float tensor `(batch, source, hidden_dim)`, a vector for each word of the source; `()`
            of a model without `leaf_ids`.
        """
        if self.deterministic_attention is None:
            return ()
        return self.deterministic_attention.word_vectors(encoder_sequence, encoder_token_ids)

    def tag(self, encoder_token_ids):
        """Predict the tags of words: of a model with `untagged_leaf_id` or `tag_loss_weight`.

        Args:
            encoder_token_ids: int tensor `(batch, source)`.

        Returns:
            Float32 tensor `(batch, source, leaves)`: the log-probabilities of all leaves, in the
            order of their ids, for each word of the source; then of no word.

        Raises:
            UserError: if the model has no tagger.
        """
        if self.decoder.tagger is None:
            raise UserError(
                "The model has no tagger: it needs `untagged_leaf_id` or `tag_loss_weight`."
            )
        encoded = self.encode(encoder_token_ids)
        return self.decoder.tag_log_probs(self.word_vectors(encoded, encoder_token_ids))

    def _next_words(self, encoder_sequence, encoder_token_ids, decoder_token_ids):
        """The vectors of the words that come next in whole targets, or None."""
        if self.deterministic_attention is None:
            return None
        return self.deterministic_attention(encoder_sequence, encoder_token_ids, decoder_token_ids)

    def _next_words_of_step(self, word_vectors, next_words):
        if self.deterministic_attention is None:
            return None
        if word_vectors is None or next_words is None:
            raise UserError(
                "A model with `leaf_ids` cannot count leaves step by step: pass `word_vectors` and "
                "`next_words` to `decode` beside the cache."
            )
        return self.deterministic_attention.vectors_at(word_vectors, next_words)

    def cross_attention(self, decoder_token_ids, encoder_token_ids):
        """Where the decoder looks in the source (section 3.2.3): soft alignments.

        Args:
            decoder_token_ids: int tensor `(batch, target)`: targets shifted right.
            encoder_token_ids: int tensor `(batch, source)`.

        Returns:
            Float tensor `(batch, num_layers, num_heads, target, source)`: the encoder-decoder
            attention weights. A row is of the position whose next token the model predicts.
        """
        encoded = self.encode(encoder_token_ids)
        next_words = self._next_words(encoded, encoder_token_ids, decoder_token_ids)
        weights = self.decoder.attention(
            decoder_token_ids, encoded, padding_mask(encoder_token_ids), next_words
        )
        return ops.stack(weights, axis=1)

    def attention(self, decoder_token_ids, encoder_token_ids):
        """Where every layer and head looks: the attention weights of a call (section 3.2.3).

        Args:
            decoder_token_ids: int tensor `(batch, target)`: targets shifted right.
            encoder_token_ids: int tensor `(batch, source)`.

        Returns:
            A dict of float tensors `(batch, num_layers, num_heads, query, key)`: `"encoder"`, the
            encoder's self-attention; `"decoder"`, the decoder's; and `"cross"`, the encoder-decoder
            attention, `(..., target, source)`.
        """
        with recorded_attention() as weights:
            self.decode(decoder_token_ids, encoder_token_ids, self.encode(encoder_token_ids))

        def stacked(layers, name):
            return ops.stack([weights[getattr(layer, name)] for layer in layers], axis=1)

        return {
            "encoder": stacked(self.encoder.layers, "self_attention"),
            "decoder": stacked(self.decoder.layers, "self_attention"),
            "cross": stacked(self.decoder.layers, "cross_attention"),
        }

    def make_cache(self, encoder_sequence, length, beam_size=1):
        """Prepare step-by-step decoding of up to `length` positions.

        Args:
            encoder_sequence: float tensor `(batch, source, hidden_dim)`, what `encode` returns.
            length: the largest number of target positions.
            beam_size: how many tokens each position may have: those of so many hypotheses.

        Returns:
            A list with a layer's keys and values each, for `decode`:
            `{"self": (key, value), "cross": (key, value)}`, of shapes `(batch, num_heads, key_dim,
            tokens)` and `(batch, num_heads, tokens, value_dim)`, for `length * beam_size` tokens of
            the target and all of the source.

        Raises:
            UserError: if `length` is more than the learned positions.
        """
        max_length = self.hyperparameters["max_length"]
        if max_length is not None and isinstance(length, int) and length > max_length:
            raise UserError(
                f"Only max_length={max_length} positions were learned. Received: length={length}"
            )
        tokens = length * beam_size
        return [layer.make_cache(encoder_sequence, tokens) for layer in self.decoder.layers]

    def dense_layers(self):
        """The projections of all attentions, and the layers of all feed-forward networks."""
        return [*self.encoder.dense_layers, *self.decoder.dense_layers]

    def quantizable_layers(self):
        """The embeddings and all `Dense` layers."""
        embeddings = [self.encoder.token_embedding]
        if self.token_embedding is not self.encoder.token_embedding:
            embeddings.append(self.token_embedding)
        return [*embeddings, *self.dense_layers()]

    @staticmethod
    def get_layout_map(
        device_mesh, model_parallel_dim_name="model", data_parallel_dim_name="batch"
    ):
        """How to spread the weights over devices, for `keras.distribution.ModelParallel` (JAX).

        ```python
        devices = keras.distribution.list_devices()
        mesh = keras.distribution.DeviceMesh((len(devices) // 2, 2), ("batch", "model"), devices)
        layout_map = Transformer.get_layout_map(mesh)
        keras.distribution.set_distribution(
            keras.distribution.ModelParallel(layout_map=layout_map, batch_dim_name="batch")
        )
        model = Transformer.from_variant("big", vocabulary_size=37000)
        ```

        Query, key, value and inner feed-forward kernels are cut by columns, output kernels by rows,
        and the embeddings by tokens, so the size of the model dimension must divide
        `vocabulary_size`, `intermediate_dim` and, best, `num_heads`.

        Args:
            device_mesh: the `keras.distribution.DeviceMesh`.
            model_parallel_dim_name: dimension of the mesh that shares each layer's weights.
            data_parallel_dim_name: dimension of the mesh that shares the batch.

        Returns:
            A `keras.distribution.LayoutMap`.

        Raises:
            UserError: if the mesh has no such dimensions, or they are the same.
        """
        return make_layout_map(device_mesh, model_parallel_dim_name, data_parallel_dim_name)

    def get_config(self):
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(policy_of(self)),
            **self.hyperparameters,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)


def _plain(token_ids):
    """Ids as JSON has them."""
    return None if token_ids is None else [int(token_id) for token_id in token_ids]


def _of_model(hyperparameters):
    return {name: x for name, x in hyperparameters.items() if name not in TRAINING_ONLY}
