"""What HuggingFace's `generate` goes by, and the search that it stands for."""

from keras_transformer.decoding.beam_search import BeamSearch

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
    value = folder.config.get(name, default) if value is None else value
    # Several end tokens are a list.
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def search_of(folder):
    """The `BeamSearch` of `num_beams` and `length_penalty`: where there are none, 4 and 1."""
    return BeamSearch(
        beam_size=generation_option(folder, "num_beams", 4),
        alpha=float(generation_option(folder, "length_penalty", 1.0)),
        length_penalty="power",
    )
