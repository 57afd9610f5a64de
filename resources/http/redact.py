"""Takes credentials out of URLs before they are written anywhere. The one place where that is decided.

`redact_url` is for what is shown, `without_credentials` for what is kept to be asked for later; docs/decisions/0006 says why.
"""

from __future__ import annotations

import re

_USERINFO = re.compile(r"(?<=//)[^/?#]*@")
_SECRET_PARAM = re.compile(
    r"(?i)([?&;](?:[\w.-]*(?:api[-_.]?key|token|secret|password|passwd|signature|credential)"
    r"|(?:[\w.-]*[-_.])?(?:key|auth|authorization|pwd|sig|jwt)|x-amz-[a-z-]+)=)[^&#;]*"
)


def redact_url(url: str) -> str:
    """`url` without user:password@ and with the values of key-like parameters replaced by `***`."""
    return _SECRET_PARAM.sub(r"\1***", _USERINFO.sub("***@", url))


def carries_credentials(url: str) -> bool:
    return redact_url(url) != url


def without_credentials(url: str) -> str:
    """`url` without user:password@ and without key-like parameters: what is left can be kept, and asked for."""
    rest = _SECRET_PARAM.sub(lambda found: "?" if found[0].startswith("?") else "", _USERINFO.sub("", url))
    return rest.replace("?&", "?").replace("?;", "?").removesuffix("?") if rest != url else url
