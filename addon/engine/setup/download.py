"""One file of a package index by HTTPS: checked against a known hash, and gone on with where it broke off."""

from __future__ import annotations

import base64
import hashlib
import html
import http.client
import importlib
import importlib.util
import json
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from splat_engine.formats.errors import UserError
from splat_engine.formats.files import write_failure

from .plan import UvWheel, masked
from .words import network_failure

OpenUrl = Callable[[urllib.request.Request], Any]
"""Opens a request; what it returns has ``status``, ``headers``, ``read(n)`` and is a context manager."""
_TIMEOUT_S = 30.0
_CHUNK_BYTES = 1 << 17
_JSON = "application/vnd.pypi.simple.v1+json"


class Cancelled(Exception):
    """Somebody has said stop."""


def open_url(request: urllib.request.Request) -> Any:
    """Opens a request through the system's proxies, with the system's certificates and those of Blender's Python."""
    context = ssl.create_default_context()
    if importlib.util.find_spec("certifi") is not None:  # Blender's Python finds none of macOS's by itself
        context.load_verify_locations(importlib.import_module("certifi").where())
    return urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context)


def find_url(index: str, project: str, name: str, opener: OpenUrl = open_url) -> str:
    """Returns the address of a project's file on a package index.

    Source: the simple repository API, as JSON (PEP 691) or HTML (PEP 503).

    Raises:
        UserError: The index cannot be reached or has no such file.
    """
    page = f"{index}/{project}/"
    try:
        with opener(_request(page, Accept=f"{_JSON}, text/html;q=0.5")) as answer:
            kind, text = str(answer.headers.get("Content-Type", "")), answer.read().decode("utf-8")
        if "json" in kind:
            links = [str(file["url"]) for file in json.loads(text)["files"]]
        else:
            links = [html.unescape(link) for link in re.findall(r"href=[\"']([^\"']+)", text)]
    except (OSError, http.client.HTTPException) as error:
        raise network_failure(masked(page), error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{masked(page)} is no package index.", "Check the index that is set.", error
        ) from error
    for link in links:
        if urllib.parse.unquote(urllib.parse.urlsplit(link).path).endswith(f"/{name}"):
            return urllib.parse.urljoin(page, link).partition("#")[0]
    raise UserError(f"{masked(index)} has no {name}.", "Use an index that has all of PyPI.")


def fetch(
    url: str,
    path: Path,
    expected: UvWheel,
    *,
    opener: OpenUrl = open_url,
    progress: Callable[[int], None] = lambda done: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Downloads a file, or the rest of it, and puts it in place if it is the right one.

    Args:
        url: Where it is.
        path: Where it goes. What has come so far stays in a file beside it, also after a failure.
        expected: What it must be.
        opener: Opens requests.
        progress: Told how many bytes there are.
        is_cancelled: Asked after each piece.

    Raises:
        UserError: The network or the disk fails, or it is another file than expected.
        Cancelled: As ``is_cancelled`` says.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not part.is_file() or part.stat().st_size < expected.size:
            _fetch_rest(url, part, opener, progress, is_cancelled)
        if part.stat().st_size < expected.size:
            raise network_failure(masked(url), ConnectionResetError("the connection was closed early"))
        found = hashlib.sha256(part.read_bytes()).hexdigest()
        if found != expected.sha256:
            part.unlink()
            raise UserError(
                f"{masked(url)} is not the file that Splatfit expects: it was changed on the way.",
                "Try again. If it stays so, a proxy or virus scanner changes downloads: ask who looks after it.",
                f"SHA-256 {found}, expected {expected.sha256}",
            )
        part.replace(path)
    except OSError as error:
        raise write_failure(path, error) from error


def _fetch_rest(
    url: str,
    part: Path,
    opener: OpenUrl,
    progress: Callable[[int], None],
    is_cancelled: Callable[[], bool],
) -> None:
    done = part.stat().st_size if part.is_file() else 0
    request = _request(url, **({"Range": f"bytes={done}-"} if done else {}))
    try:
        answer = opener(request)
    except (OSError, http.client.HTTPException) as error:
        raise network_failure(masked(url), error) from error
    with answer, part.open("ab") as stream:
        if answer.status != 206:  # the server sends all of it
            stream.truncate(0)
            done = 0
        while piece := _piece(answer, url):
            if is_cancelled():
                raise Cancelled
            stream.write(piece)
            done += len(piece)
            progress(done)


def _piece(answer: Any, url: str) -> bytes:
    """Returns the next bytes; a broken connection is the network's failure, not the disk's."""
    try:
        return bytes(answer.read(_CHUNK_BYTES))
    except (OSError, http.client.HTTPException) as error:
        raise network_failure(masked(url), error) from error


def _request(url: str, **headers: str) -> urllib.request.Request:
    """Returns a request; name and password in the address become a header, which urllib does not do."""
    parts = urllib.parse.urlsplit(url)
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return urllib.request.Request(masked(url), headers={"User-Agent": "splatfit", **headers})
