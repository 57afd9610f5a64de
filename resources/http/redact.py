"""Takes credentials out of URLs before they are written anywhere. The one place where that is decided."""

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
