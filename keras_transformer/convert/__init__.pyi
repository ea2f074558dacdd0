from keras_transformer.presets.format import Preset as Preset
from keras_transformer.convert.foreign_layers import SSRU as SSRU
from keras_transformer.convert.foreign_transformer import ForeignTransformer as ForeignTransformer
from keras_transformer.convert.from_hf_marian import marian as marian
from keras_transformer.convert.from_fairseq import m2m100 as m2m100
from keras_transformer.convert.from_fairseq import fsmt as fsmt
from keras_transformer.convert.from_ctranslate2 import ctranslate2 as ctranslate2
