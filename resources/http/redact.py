"""Takes credentials out of URLs before they are written anywhere. The one place where that is decided.

Credentials are keys, tokens and signatures, passwords, and the ids of sessions, for who has one is taken for its visitor. They
stand in the query, in the fragment, in parameters of the path (`;jsessionid=`) or as a folder (`/(S(…))/`), and in a URL that is
the escaped value of a parameter of another. `redact_url` is for what is shown, `without_credentials` for what is kept to be asked
for later; docs/decisions/0006 says why.
"""

from __future__ import annotations

import re

# Names of parameters. They contain no escapes, so that a URL that is escaped within another is read in the same way.
_SECRET_NAME = (
    r"(?:[\w.-]*(?:(?:api|access|auth)[-_.]?key(?:id)?|token(?:[-_.]?id)?|secret|password|passwd|passphrase|signature"
    r"|credentials?|session[-_.]?(?:id|key|hash)|ticket)"
    r"|(?:[\w.-]*[-_.])?(?:key|auth|authorization|pwd|sig|hmac|jwt|otp|sid|sess|session(?=(?:=|%3D)[^&#;]{8}))"
    r"|(?:[\w.-]*[-_.]|php|j|asp)?sess(?:ion)?id[\w.-]*|cfid|saml(?:response|request|art)|oauth_\w+|x-amz-[a-z-]+)"
)
_USERINFO = re.compile(r"(?<=//)[^/?#]*@")
_BEFORE = r"(?:[?&;#]|%3F|%26|%3B|%23)"
_IN_QUERY = re.compile(rf"(?i)({_BEFORE}{_SECRET_NAME}(?:=|%3D))(?:(?!%26|%23|%3B)[^&#;])*")
_IN_PATH = re.compile(rf"(?i)((?:;|%3B){_SECRET_NAME}(?:=|%3D))(?:(?!%3B|%2F|%3F)[^/?#;&])*")
_SESSION_FOLDER = re.compile(r"(?<=/)\((?:[A-Za-z]\([^()/]*\))+\)(/|$)")  # of ASP.NET, for visitors without cookies
_ANY = re.compile(r"[?#;@(]|%3[bf]|%23", re.IGNORECASE)


def redact_url(url: str) -> str:
    """`url` without user:password@ and with the values of key-like parameters replaced by `***`."""
    if not _ANY.search(url):
        return url  # most
    path, rest = _parts(_USERINFO.sub("***@", url))
    return _SESSION_FOLDER.sub(r"***\1", _IN_PATH.sub(r"\1***", path)) + _IN_QUERY.sub(r"\1***", rest)


def carries_credentials(url: str) -> bool:
    return redact_url(url) != url


def without_credentials(url: str) -> str:
    """`url` without user:password@ and without key-like parameters: what is left can be kept, and asked for."""
    if not carries_credentials(url):
        return url
    path, rest = _parts(_USERINFO.sub("", url))
    path = _SESSION_FOLDER.sub("", _IN_PATH.sub("", path))
    rest = _IN_QUERY.sub(lambda found: found[0][0] if found[0][0] in "?#" else "", rest)
    for first in "?#":
        rest = rest.replace(f"{first}&", first).replace(f"{first};", first)
    return path + rest.replace("?#", "#").rstrip("?#")


def _parts(url: str) -> tuple[str, str]:
    """Up to the query or fragment, and from there."""
    at = min((at for at in (url.find("?"), url.find("#")) if at >= 0), default=len(url))
    return url[:at], url[at:]
