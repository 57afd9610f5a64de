"""Parse the digests in response headers: Content-MD5 (RFC 1864), Digest (RFC 3230), Repr- and Content-Digest (RFC 9530).
The sink that receives the body compares them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping

_HEADERS = ("repr-digest", "content-digest", "digest")
_ALGORITHMS = {"md5": "md5", "sha": "sha1", "sha-1": "sha1", "sha-256": "sha256", "sha-512": "sha512"}
KNOWN = frozenset(_ALGORITHMS.values())
_STATED = re.compile(r"([A-Za-z0-9-]{1,16})=:?([A-Za-z0-9+/]{4,100}={0,2}):?")


def stated_digests(headers: Mapping[str, str]) -> dict[str, str]:
    """hashlib's name of an algorithm → hexadecimal digest of the whole body. Empty for a coded body, where the digest is of the
    bytes on the wire. Values that cannot be parsed or have the wrong length are ignored."""
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        return {}
    stated = [("md5", headers.get("content-md5", ""))]
    for name in _HEADERS:
        stated += _STATED.findall(headers.get(name, "")[:1000])
    found: dict[str, str] = {}
    for name, value in stated:
        algorithm = _ALGORITHMS.get(name.lower())
        if algorithm is not None and (digest := _hex(value, hashlib.new(algorithm).digest_size)) is not None:
            found.setdefault(algorithm, digest)
    return found


def _hex(value: str, size: int) -> str | None:
    try:
        digest = base64.b64decode(value.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    return digest.hex() if len(digest) == size else None
