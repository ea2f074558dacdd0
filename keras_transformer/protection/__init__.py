"""Parts of a text that are not translated: found, taken out, and put back into a translation."""

from keras_transformer.protection.pieces import compiled as compiled
from keras_transformer.protection.protected import Protected as Protected
from keras_transformer.protection.protected import protect as protect
