"""What uv, pip and the network say when they fail, in words for people."""

from __future__ import annotations

import re
import urllib.error

from splat_engine.formats.errors import UserError

_PROXY = (
    "A proxy stands between this machine and the network.",
    "Ask for its address and set HTTPS_PROXY=http://NAME:PASSWORD@PROXY:PORT before Blender starts, then try again.",
)
_CERTIFICATE = (
    "The network's certificate is not trusted: something on the way opens encrypted connections.",
    "Ask for your company's certificate, set SSL_CERT_FILE to its file before Blender starts, then try again.",
)
_OFFLINE = (
    "The server could not be reached.",
    "Check the network, then try again: what has come already is kept. Without a network, download the packages "
    "elsewhere and choose their folder in the preferences.",
)
_FULL = (
    "The disk is full.",
    "Free some space and try again: what has come already is kept.",
)
_PLACE = (
    "Something may not be written there.",
    "Check the folder's permissions, and that no fit is running with this engine.",
)
_NO_PYTHON = (
    "No Python for the engine could be had.",
    "Install Python 3.12 from python.org, or by the system's package manager, and try again.",
)
_NOT_FOUND = (
    "A package of the right version is not to be had there.",
    "Use a package index, or a folder of packages, that has all that the log names.",
)

# The first that fits is told: a proxy's refusal is also a failed connection. Source of the texts: uv 0.13, pip 26,
# Python's urllib and the C libraries of Linux, macOS and Windows.
_SIGNS: tuple[tuple[str, tuple[str, str]], ...] = (
    (r"No space left|os error 28\b|os error 112\b|not enough space|disk quota|os error 122\b", _FULL),
    (r"\b407\b|Proxy Authentication|proxyerror|cannot connect to proxy|tunnel|unsuccessful.*proxy", _PROXY),
    (
        r"CERTIFICATE_VERIFY|invalid peer certificate|UnknownIssuer|self.signed cert|SSLCertVerif",
        _CERTIFICATE,
    ),
    (
        r"dns error|failed to lookup|Name or service not known|name resolution|getaddrinfo failed|nodename nor "
        r"servname|Network is unreachable|No route to host|Connection refused|connection reset|closed early|"
        r"timed out|operation timeout|error sending request|Failed to establish|network connectivity is disabled",
        _OFFLINE,
    ),
    (r"Permission denied|os error 13\b|Access is denied|os error 5\b|Read-only file system", _PLACE),
    (r"No interpreter found|No Python at|No download found|no suitable Python", _NO_PYTHON),
    (r"No solution found|No matching distribution|not found in the package registry|no version", _NOT_FOUND),
)


def program_failure(step: str, text: str, log: str) -> UserError:
    """Returns the words for a program that failed.

    Args:
        step: What was being done, such as ``"Installing PyTorch"``.
        text: What the program said.
        log: Where all of it stands.
    """
    for pattern, (what, hint) in _SIGNS:
        if re.search(pattern, text, re.IGNORECASE):
            return UserError(f"{step} failed. {what}", f"{hint} The log is {log}.", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line[6:].strip() for line in lines if line.lower().startswith("error:")]
    said = (errors or lines[-1:] or ["It said nothing."])[0]
    return UserError(f"{step} failed: {said[:300]}", f"Try again. The log is {log}.", text)


def network_failure(url: str, error: BaseException) -> UserError:
    """Returns the words for a server that did not give what it was asked for."""
    if isinstance(error, urllib.error.HTTPError) and error.code not in (407, 502, 503, 504):
        return UserError(
            f"The server answered {error.code} {error.reason} for {url}.",
            "Try again later; check the package index, if another than PyPI is set.",
            error,
        )
    for pattern, (what, hint) in _SIGNS[1:]:
        if re.search(pattern, str(error), re.IGNORECASE):
            return UserError(f"{url} could not be had. {what}", hint, error)
    return UserError(f"{url} could not be had. {_OFFLINE[0]}", _OFFLINE[1], error)
