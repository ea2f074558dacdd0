"""The systems whose training is compared, with the same weights, batches, dropout and optimizer.

All have a `name`; `evaluate(batch)`, which returns the label-smoothed loss of a batch without
dropout; and `train(batch, steps)`, which returns when that many training steps are done. A batch is
a pair of int32 arrays `(source, target)`, each `(rows, length)`; the target begins with the start
token.
"""

import keras

import keras_transformer as kt

LABEL_SMOOTHING = 0.1
LEARNING_RATE = 1e-4


class KerasTransformer:
    def __init__(self, model):
        self.name = f"keras_transformer on {keras.backend.backend()}"
        self.model = model
        model.compile(
            keras.optimizers.Adam(LEARNING_RATE, beta_2=0.98, epsilon=1e-9),
            kt.LabelSmoothedCrossentropy(LABEL_SMOOTHING),
            jit_compile=keras.backend.backend() != "torch",
        )

    def evaluate(self, batch):
        return float(self.model.test_on_batch(*_keras_batch(batch)))

    def train(self, batch, steps):
        batches = (_keras_batch(batch) for _ in range(steps))
        self.model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0)


class KerasHub(KerasTransformer):
    """KerasHub's layers on the same backend, with the same loss. Unlike the paper, they also apply
    dropout to attention weights.
    """

    def __init__(self, model):
        import keras_hub
        from keras_hub_model import keras_hub_model

        super().__init__(keras_hub_model(model))
        self.name = f"KerasHub {keras_hub.__version__} on {keras.backend.backend()}"


class _Torch:
    """A PyTorch model that maps (source, target) to logits."""

    def __init__(self, name, model, threads):
        import torch

        self.name = f"{name} (torch {torch.__version__})"
        torch.set_num_threads(threads)
        self.is_bfloat16 = keras.config.dtype_policy().compute_dtype == "bfloat16"
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.optimizer = torch.optim.Adam(
            model.parameters(), LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9, fused=True
        )

    def evaluate(self, batch):
        import torch

        self.model.eval()
        with torch.no_grad():
            loss = self.loss(*self._tensors(batch))
        self.model.train()
        return float(loss)

    def train(self, batch, steps):
        for _ in range(steps):
            loss = self.loss(*self._tensors(batch))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        float(loss.detach())  # waits for a GPU

    def loss(self, source, target):
        import torch

        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.is_bfloat16):
            logits = self.logits(source, target[:, :-1])
            return torch.nn.functional.cross_entropy(
                logits.flatten(0, 1),
                target[:, 1:].flatten(),
                ignore_index=0,
                label_smoothing=LABEL_SMOOTHING,
            )

    def _tensors(self, batch):
        import torch

        return [torch.from_numpy(ids).long().to(self.device) for ids in batch]

    def logits(self, source, target):
        return self.model(source, target)


class NNTransformer(_Torch):
    """`torch.nn.Transformer`, as it is or through `torch.compile`."""

    def __init__(self, model, threads, is_compiled):
        import torch
        from nn_transformer import TorchTransformer

        peer = TorchTransformer(model, model.config.dropout)
        name = "nn.Transformer, torch.compile" if is_compiled else "nn.Transformer, eager"
        super().__init__(name, peer, threads)
        # The path without gradients, of `evaluate` only, fails with autocast.
        torch.backends.mha.set_fastpath_enabled(False)
        if is_compiled:
            self.loss = torch.compile(self.loss)


class Marian(_Torch):
    """The Marian model of HuggingFace's transformers."""

    def __init__(self, model, threads):
        import transformers
        from marian import marian_model

        name = f"Marian of transformers {transformers.__version__}"
        super().__init__(name, marian_model(model).train(), threads)

    def logits(self, source, target):
        mask = (source != 0).long()
        return self.model(
            input_ids=source, attention_mask=mask, decoder_input_ids=target, use_cache=False
        ).logits


def make_system(name, model, threads):
    """One of the systems, by its name on the command line."""
    makers = {
        "ours": lambda: KerasTransformer(model),
        "nn_transformer": lambda: NNTransformer(model, threads, is_compiled=False),
        "nn_transformer_compiled": lambda: NNTransformer(model, threads, is_compiled=True),
        "marian": lambda: Marian(model, threads),
        "keras_hub": lambda: KerasHub(model),
    }
    return makers[name]()


def _keras_batch(batch):
    source, target = batch
    inputs = {"encoder_token_ids": source, "decoder_token_ids": target[:, :-1]}
    return inputs, target[:, 1:]
