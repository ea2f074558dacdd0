"""A translation server: HTTP in LibreTranslate's form, and a page to type in.

This module imports no web library: the options are those of a command too.
"""

from dataclasses import dataclass

from keras_transformer.errors import UserError
from keras_transformer.validation import positive_integer


@dataclass(kw_only=True)
class ServerOptions:
    """Limits of the server, which bound its memory and time for any request."""

    max_request_bytes: int = 1_000_000
    """The largest body of a request. A larger one is answered with status 413."""
    max_characters: int = 1_000_000
    """The most characters of a request or of the texts of a file. More are answered with 413."""
    max_sentences: int = 10_000
    """The most sentences of a request, and texts of it. More are answered with status 413."""
    max_waiting: int = 1_000
    """The most requests that are read or answered at the same time. A further one is answered
    with status 503, and a time after which to try again."""
    max_waiting_bytes: int = 100_000_000
    """The most bytes of these requests, with the files among them."""
    max_file_bytes: int = 10_000_000
    """The largest file to translate. A larger one is answered with status 413."""
    file_seconds: int = 1_800
    """How long a translated file can be downloaded. Then it is deleted."""
    body_seconds: int = 60
    """The longest time in which a request is read. A slower one is answered with status 408."""
    shutdown_seconds: int = 30
    """The longest time in which requests that have begun are finished after SIGTERM."""
    cors_origin: tuple[str, ...] = ()
    """Origins whose pages may use the server from a browser, such as https://example.org; * for
    all. Defaults to none."""

    def validate(self) -> None:
        """Raise a `UserError` if an option is out of its range."""
        for name, value in vars(self).items():
            if isinstance(value, int) and name.startswith(("max_", "file_", "body_", "shutdown_")):
                positive_integer(name, value)
        for origin in self.cors_origin:
            if origin != "*" and (
                not origin.startswith(("http://", "https://")) or origin[-1] == "/"
            ):
                raise UserError(
                    "`cors_origin` must be *, or a scheme and a host without a path, such as "
                    f"https://example.org. Received: cors_origin={origin!r}"
                )
