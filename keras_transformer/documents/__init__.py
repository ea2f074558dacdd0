"""Files whose texts are translated and whose structure is kept: `kt.documents`.

- `translate_file`: translates a file into another of the same format, as `FileReport`.
- `read_document`: reads the texts of a file, as `Document`.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
