"""Resolvers find copies of a work: a registry, one file per provider, and here all that a resolver needs to import.

Importing this package loads no resolver; `load_resolvers` does.
"""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

from docstokg_assets.domain.identifiers import (
    normalize_arxiv,
    normalize_doi,
    normalize_openalex_id,
    normalize_pmcid,
    normalize_pmid,
    normalize_url,
)
from docstokg_assets.domain.json_access import JsonObject, dig, items, mapping, objects, text, values_at
from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.resolvers.api import (
    ApiResolver,
    DepositResolver,
    IndexResolver,
    api_request,
    bad_answer,
    batchable_request,
    failure,
    indexed_doi,
    json_of,
    license_name,
    names_doi,
    nothing,
    phrase,
    result_of,
)
from docstokg_assets.resolvers.registry import (
    Budget,
    Candidates,
    Example,
    KeyedSettings,
    Resolution,
    Resolver,
    ResolverContext,
    ResolverResult,
    ResolverSettings,
    answer,
    build_resolvers,
    clear_resolver_caches,
    load_resolvers,
    register,
)
from docstokg_assets.resolvers.routes import doi_url, file_url, is_sanctioned, looks_like_pdf, page_url
from resources.http.canonical import host_of
from resources.http.errors import BreakerOpen, HostClosed, RefusedError
from resources.http.messages import Request, Response
from resources.records import Reason, Spent

__all__ = ["Candidate", "Location", "Reason", "Request", "Response", "Target", "Tier", "Work"]
__all__ += ["ApiResolver", "DepositResolver", "Example", "IndexResolver", "Resolver", "register"]
__all__ += ["Candidates", "Resolution", "ResolverContext", "ResolverResult"]
__all__ += ["Budget", "KeyedSettings", "ResolverSettings", "Spent"]
__all__ += ["build_resolvers", "clear_resolver_caches", "load_resolvers"]
__all__ += ["answer", "api_request", "bad_answer", "batchable_request", "failure", "json_of"]
__all__ += ["nothing", "phrase", "result_of"]
__all__ += ["JsonObject", "dig", "items", "mapping", "objects", "text", "values_at"]
__all__ += ["indexed_doi", "license_name", "names_doi", "normalize_arxiv", "normalize_doi", "normalize_openalex_id"]
__all__ += ["normalize_pmcid", "normalize_pmid", "normalize_url"]
__all__ += ["BreakerOpen", "HostClosed", "RefusedError"]
__all__ += ["doi_url", "file_url", "host_of", "is_sanctioned", "looks_like_pdf", "page_url"]

# Modules that older code imports from here, and where to import them from.
_DEPRECATED = {"time": "the standard library: import time", "requests": "the package of that name: import requests"}


def __getattr__(name: str) -> ModuleType:
    if name not in _DEPRECATED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"{__name__}.{name} will be removed in the next minor version; take it from {_DEPRECATED[name]}",
        DeprecationWarning,
        stacklevel=2,
    )
    return importlib.import_module(name)
