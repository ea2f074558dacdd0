"""Write files and folders whole, or not at all."""

import contextlib
import os
import tempfile
from pathlib import Path


@contextlib.contextmanager
def whole(path):
    """Give a temporary path beside `path`, and move what was written there to `path` at the end.

    If the block fails, or the process is killed, whatever stood at `path` before stays as it was.
    Works for a file and for a folder (the block makes whichever it needs); a folder is replaced by
    moving the old one aside first.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        new = Path(folder) / path.name
        yield new
        if new.is_dir() and path.is_dir():
            os.replace(path, Path(folder) / "old")
        os.replace(new, path)
