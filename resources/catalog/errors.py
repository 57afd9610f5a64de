"""Errors of the catalog, and the translation of errors of drivers and the file system into messages with a remedy."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import AbstractContextManager

from sqlalchemy.exc import DBAPIError, OperationalError

from resources.errors import ExplainedError, translate_errors

POSTGRES_SCHEMA = "docstokg"  # its own, because other programs (such as Dagster) have a table `runs` too


class CatalogError(ExplainedError):
    """The catalog cannot be used; the message names it, what is wrong and the remedy."""


class CatalogFull(CatalogError):
    """There is no room left on the disk of the catalog."""

    out_of_space = True


class TransactionLost(CatalogError):
    """The server went away or did not answer, or aborted the transaction for another one. Nothing of it was kept; it may be
    repeated."""


# serialization failure, deadlock, a lock that did not come free in time, this client hung within a transaction
_ABORTED = frozenset({"40001", "40P01", "55P03", "25P03"})
_DISK_FULL = "53100"
_GOING_AWAY = frozenset({"57P01", "57P02", "57P03"})  # shut down, crashed, starting up


def is_lost(error: DBAPIError) -> bool:
    """Whether the transaction ended through no fault of its own. Without a connection psycopg gives no state."""
    state = getattr(error.orig, "sqlstate", "")
    if state is None:
        return isinstance(error, OperationalError)
    return error.connection_invalidated or state in _ABORTED | _GOING_AWAY or state.startswith("08")


_NO_ACCESS = "Give this user the right to write to the file and its folder, or choose another data_root."
_FILE_REMEDIES = {
    "locked": "Another process has held it for too long; end that process, then run the same command again.",
    "readonly": _NO_ACCESS,
    "read-only": _NO_ACCESS,
    "unable to open": _NO_ACCESS,
    "permission denied": _NO_ACCESS,
    "no such file": "Choose another data_root.",
    "not a database": "Choose another data_root, or move the file away.",
    "malformed": "Restore it from a backup; a file system check is advisable.",
    "disk i/o": "Check the disk, then run the same command again.",
}
_SERVER_REMEDIES = {
    "password authentication": "Check the user and the password in storage.url.",
    "does not exist": "Create it on the server, or correct storage.url.",
    "permission denied": f"Give the user of storage.url the right to create the schema {POSTGRES_SCHEMA} and to write in it.",
    "read-only transaction": "The server only reads at the moment (a standby?); name the primary in storage.url.",
    "lock timeout": "Another process has held it for too long; end that process, then run the same command again.",
    "connection": "Start the server, or correct storage.url.",
}


def translate_catalog_errors(name: str) -> AbstractContextManager[None]:
    """Raise errors of the driver or the file system about the database `name` as a CatalogError."""
    return translate_errors((DBAPIError, sqlite3.Error, OSError), lambda error: _translate(name, error))


def _translate(name: str, error: DBAPIError | sqlite3.Error | OSError) -> CatalogError:
    # Only the first line of the driver's message: the rest would show the statement with its values.
    cause = str(error.orig if isinstance(error, DBAPIError) else error).partition("\n")[0].rstrip(".")
    if isinstance(error, FileExistsError | NotADirectoryError):
        return CatalogError(f"{error.filename} is a file, not a folder. Choose another data_root.")
    state = getattr(error.orig, "sqlstate", "") if isinstance(error, DBAPIError) else ""  # PostgreSQL's alone
    no_room = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if "is full" in cause or no_room or state == _DISK_FULL:
        remedy = "Free some space, then run the same command again."
        return CatalogFull(f"no room for the catalog {name}: {cause}. {remedy}")
    remedies = _FILE_REMEDIES if state == "" else _SERVER_REMEDIES
    remedy = next((words for sign, words in remedies.items() if sign in cause.lower()), "")
    kind = TransactionLost if isinstance(error, DBAPIError) and is_lost(error) else CatalogError
    return kind(f"the catalog {name} failed: {cause}. {remedy}".rstrip())
