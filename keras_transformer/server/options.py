"""Options of the server. This module imports neither Keras nor a web library."""

from dataclasses import dataclass

from keras_transformer.validation import positive_integer


@dataclass(kw_only=True)
class ServerOptions:
    """Limits of the server. They bound its memory, whatever its clients send."""

    max_request_bytes: int = 1_000_000
    """The largest body of a request. A larger one is answered with status 413."""
    max_sentences: int = 1_000
    """The most sentences of a request. More are answered with status 413."""
    max_waiting: int = 10_000
    """The most sentences that wait for the model. A request that would exceed it is answered with
    status 503, and a time after which to try again."""

    def check(self) -> None:
        """Raise a `UserError` if an option is out of its range."""
        for name in ("max_request_bytes", "max_sentences", "max_waiting"):
            positive_integer(name, getattr(self, name))
