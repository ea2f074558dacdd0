import pytest

from keras_transformer.documents import read_document, translate_file
from tests.documents.translators import Upper


@pytest.fixture
def read(tmp_path, request):
    """Return a function that reads a file, and checks that its units lead back to it.

    The suffix of the file is `SUFFIX` of the test's module.
    """

    def run(data):
        old, new = (tmp_path / f"{x}{request.module.SUFFIX}" for x in "ab")
        old.write_bytes(data)
        document = read_document(old)
        document.render(document.units, new)
        assert new.read_bytes() == data
        return document

    return run


@pytest.fixture
def translated(tmp_path, request):
    """Return a function that translates a file, and returns its new content.

    The suffix of the file is `SUFFIX` of the test's module, unless it is given.
    """

    def run(content, translate=None, suffix=None, encoding=None, **options):
        suffix = suffix or request.module.SUFFIX
        source = tmp_path / f"a{suffix}"
        target = tmp_path / f"b{suffix.replace('.pot', '.po')}"
        source.write_bytes(content if isinstance(content, bytes) else content.encode())
        document = read_document(source, encoding)
        run.report = translate_file(document, target, translate or Upper(), **options)
        run.units = [str(unit) for unit in document.units]
        run.texts, run.target = [unit.text for unit in document.units], target
        return target.read_bytes() if isinstance(content, bytes) else target.read_bytes().decode()

    return run
