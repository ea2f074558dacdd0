"""A hub of Hugging Face on this machine, which serves repositories from folders."""

import contextlib
import hashlib
import http.server
import json
import threading
from pathlib import Path


class LocalHub(http.server.ThreadingHTTPServer):
    """Serves `repositories`: a dict of "user/name" -> folder. Its files' content is the revision.

    Attributes:
        requested: the paths of the files that were downloaded.
    """

    def __init__(self, repositories):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories, self.requested = dict(repositories), []

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        user, _, rest = self.path.removeprefix("/api/models").lstrip("/").partition("/")
        name, *words = rest.partition("?")[0].split("/")
        folder = self.server.repositories.get(f"{user}/{name}")
        if folder is None:
            self.send_error(404, headers={"X-Error-Code": "RepoNotFound"})
            return
        files = sorted(path for path in Path(folder).iterdir() if path.is_file())
        revision = hashlib.sha1(b"".join(path.read_bytes() for path in files)).hexdigest()
        if self.path.startswith("/api/"):
            siblings = [{"rfilename": path.name} for path in files]
            tree = [
                {"type": "file", "path": x.name, "size": x.stat().st_size, "oid": "0" * 40}
                for x in files
            ]
            facts = {"id": f"{user}/{name}", "sha": revision, "siblings": siblings}
            self._answer(json.dumps(tree if words[:1] == ["tree"] else facts).encode(), {})
            return
        content = (Path(folder) / words[-1]).read_bytes()
        if self.command == "GET":
            self.server.requested.append(words[-1])
        etag = hashlib.sha1(content).hexdigest()
        self._answer(content, {"ETag": f'"{etag}"', "X-Repo-Commit": revision})

    def send_error(self, code, message=None, explain=None, headers=()):
        self.send_response(code)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, content, headers):
        self.send_response(200)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


@contextlib.contextmanager
def local_hub(monkeypatch, cache, **repositories):
    """Within the block, `huggingface_hub` asks this hub, and keeps files in the folder `cache`.

    Args:
        **repositories: names of repositories of "user" -> folders.
    """
    import huggingface_hub.constants

    hub = LocalHub({f"user/{name}": folder for name, folder in repositories.items()})
    constants = huggingface_hub.constants
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, hub.endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
