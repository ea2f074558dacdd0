"""`make release` checks with this what a wheel holds: `python -m tests.wheel dist/*.whl`."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(path):
    tracked = subprocess.check_output(
        ["git", "ls-files", "keras_transformer*"], cwd=ROOT, text=True
    )
    missing, unexpected = differences(zipfile.ZipFile(path).namelist(), tracked.splitlines())
    for kind, names in (("missing", missing), ("unexpected", unexpected)):
        for name in names:
            print(f"{kind} in {path}: {name}", file=sys.stderr)
    return 1 if missing or unexpected else 0


def differences(packed, tracked):
    """Return the names that a wheel lacks, and the names that it should not have."""
    packed = {name for name in packed if not name.split("/")[0].endswith(".dist-info")}
    return sorted({*tracked} - packed), sorted(packed - {*tracked})


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
