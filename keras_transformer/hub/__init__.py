"""KerasHub's classes for presets of this package: `import keras_transformer.hub` registers them.

```python
import keras_hub
import keras_transformer.hub

translator = keras_hub.models.Seq2SeqLM.from_preset("saved_models/multi30k_en_de")
translator.generate("A dog runs.")  # "Ein Hund rennt.", by the preset's own search
translator.compile(sampler="greedy")
translator.fit({"encoder_text": ["A dog runs."], "decoder_text": ["Ein Hund rennt."]})
translator.save_to_preset("my_model")  # which `kt.Translator.from_preset` loads too
keras_hub.upload_preset("hf://user/my_model", "my_model")
```
"""

from keras_transformer.errors import UserError

try:
    import keras_hub  # noqa: F401
except ImportError as error:
    raise UserError(
        "`keras_transformer.hub` needs the package `keras_hub`, which cannot be imported "
        f"({error}). Install it: pip install keras-hub. Except on Windows it requires "
        "tensorflow-text, which has wheels for Python 3.11 to 3.13 on Linux and on Macs with Apple "
        "silicon. (`kt.Translator.from_preset` loads presets without it.)"
    ) from error

from keras_transformer.hub.backbone import (
    ForeignTransformerBackbone,
    ForeignTransformerSeq2SeqLMPreprocessor,
    ForeignTransformerTokenizer,
    ParserTransformerBackbone,
    ParserTransformerSeq2SeqLMPreprocessor,
    ParserTransformerTokenizer,
    TransformerBackbone,
    TransformerSeq2SeqLMPreprocessor,
    TransformerTokenizer,
)
from keras_transformer.hub.seq_2_seq_lm import (
    ForeignTransformerSeq2SeqLM,
    ParserTransformerSeq2SeqLM,
    TransformerSeq2SeqLM,
)

__all__ = [
    "ForeignTransformerBackbone",
    "ForeignTransformerSeq2SeqLM",
    "ForeignTransformerSeq2SeqLMPreprocessor",
    "ForeignTransformerTokenizer",
    "ParserTransformerBackbone",
    "ParserTransformerSeq2SeqLM",
    "ParserTransformerSeq2SeqLMPreprocessor",
    "ParserTransformerTokenizer",
    "TransformerBackbone",
    "TransformerSeq2SeqLM",
    "TransformerSeq2SeqLMPreprocessor",
    "TransformerTokenizer",
]
