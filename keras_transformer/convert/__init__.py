"""Other people's models as ours: `kt.convert`.

Each function reads a folder, or `hf://user/repository`, and runs no code of it.
`python -m keras_transformer.convert FORMAT SOURCE DESTINATION` writes what it returns as a preset.

- `marian`: Marian and OPUS-MT, as HuggingFace's transformers keeps them; a `Translator`.
- `m2m100`: M2M-100 and NLLB-200, likewise.
- `fsmt`: fairseq's models of WMT 2019, likewise.
- `ctranslate2`: any Transformer of CTranslate2, quantized or not; a `Translator`.
- `torch`: the state dict of a `torch.nn.Transformer` with embeddings; a `Transformer`.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
