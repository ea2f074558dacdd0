"""Converters of other libraries' models: `kt.convert`.

Each function reads a folder or `hf://user/repository`, and runs no code of it. It returns a preset:
`kt.Translator.from_preset(preset)` is the translator.
`keras-transformer convert FORMAT SOURCE DESTINATION` writes the result as a preset. The guide
"Convert models" lists the files that were tried. `hf://` is built from its description.

- `marian`: Marian and OPUS-MT, in Marian's own form (tried) or HuggingFace's (built from its
  description).
- `m2m100`: M2M-100 and NLLB-200 in HuggingFace's form (built from its description).
- `fsmt`: fairseq's models of WMT 2019 in HuggingFace's form (built from its description).
- `ctranslate2`: any Transformer of CTranslate2, quantized or not (tried).

- `Preset`: the result of these functions, and the contents of a preset folder.
- `ForeignTransformer`: the model with the options of such files; `SSRU`: a layer that it may have.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
