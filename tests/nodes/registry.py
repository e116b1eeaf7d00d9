"""A registry of images, all of which are the same program and nothing else."""

import io
import json
import re
import tarfile
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.loopback import Handler, Server

_OCI = "application/vnd.oci.image"


class Registry(Server):
    """Answers pulls of the images in `names`, and knows no others."""

    def __init__(self, program: Path) -> None:
        super().__init__(_Pull)
        self.names: set[str] = set()
        self._blobs: dict[str, bytes] = {}
        layer = _layer(program)
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": [f"/{program.name}"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
        described = {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": self._add(json.dumps(config).encode(), "config.v1+json"),
            "layers": [self._add(layer, "layer.v1.tar")],
        }
        self.manifest = json.dumps(described).encode()

    def _add(self, blob: bytes, kind: str) -> dict[str, Any]:
        digest = _digest(blob)
        self._blobs[digest] = blob
        return {"mediaType": f"{_OCI}.{kind}", "digest": digest, "size": len(blob)}

    def find(self, path: str) -> tuple[bytes, str] | None:
        """What is at this path, and its type."""
        found = re.match(r"/v2/([^?]+)/(manifests|blobs)/([^?]+)", path)
        if found is None or found[1] not in self.names:
            return None
        if found[2] == "manifests":
            return self.manifest, f"{_OCI}.manifest.v1+json"
        blob = self._blobs.get(found[3])
        return None if blob is None else (blob, "application/octet-stream")


class _Pull(Handler):
    def respond(self) -> None:
        assert isinstance(self.server, Registry)
        found = self.server.find(self.path)
        body, kind = found or (b"{}", "application/json")
        self.send_response(HTTPStatus.OK if found else HTTPStatus.NOT_FOUND)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", _digest(body))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:  # noqa: N802  (the library's name)
        self.respond()


def _digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


def _layer(program: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo(program.name)
        entry.mode = 0o755
        data = program.read_bytes()
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()
