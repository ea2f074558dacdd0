"""What HuggingFace's `generate` goes by, and the search that it stands for."""

from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.errors import UserError

_OWN_FILE = "generation_config.json"


def generation_option(folder, name, default=None):
    """An option of `generate`: its own file has it, or else the model's configuration.

    Args:
        folder: a `ForeignFolder`.
        name: name of the option.
        default: what it is where neither has it.
    """
    own = folder.json(_OWN_FILE) if folder.has(_OWN_FILE) else {}
    value = own.get(name)
    value = folder.config.get(name) if value is None else value
    value = default if value is None else value
    # Several end tokens are a list.
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def search_of(folder):
    """The `BeamSearch` of `num_beams` and `length_penalty`: where there are none, 4 and 1.

    Raises:
        UserError: if it is none.
    """
    beam_size = generation_option(folder, "num_beams", 4)
    alpha = generation_option(folder, "length_penalty", 1.0)
    if type(alpha) not in (int, float):
        raise UserError(f"{folder.path}: length_penalty must be a number. Received: {alpha!r}")
    return BeamSearch(beam_size, alpha=float(alpha), length_penalty="power")
