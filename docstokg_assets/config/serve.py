"""The section `serve` of the configuration: where `content serve` listens, and who may call it."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, field_validator, model_validator

from resources.settings import Section

MIN_TOKEN_CHARACTERS = 16
_EXPOSED = "serve.host {host} can be reached from other machines"


class ServeSettings(Section):
    host: str = Field("127.0.0.1", min_length=1, description="address to listen on; beyond loopback see docs/serve.md")
    port: int = Field(8080, ge=0, le=65_535, description="port for HTTP; 0 takes a free one")
    grpc_port: int = Field(8081, ge=0, le=65_535, description="port for gRPC (`content serve --grpc`); 0: a free one")
    tokens: tuple[SecretStr, ...] = Field(
        (),
        description=f"tokens of the callers, each of {MIN_TOKEN_CHARACTERS} characters or more; required off loopback",
    )
    tls_cert: Path | None = Field(None, description="certificate chain (PEM) for HTTPS and gRPC")
    tls_key: Path | None = Field(None, description="its private key (PEM)")
    trusted_proxies: tuple[str, ...] = Field(
        (), description="addresses or networks of proxies that do TLS; with these, only they may connect"
    )
    hostnames: tuple[str, ...] = Field(
        (), description="names under which callers reach the server; other Host headers are refused"
    )
    requests_per_minute: int = Field(
        600, ge=1, description="HTTP requests and gRPC calls of one caller; counted where tokens are set"
    )

    @field_validator("tokens", mode="before")
    @classmethod
    def _tokens_from_text(cls, tokens: Any) -> Any:
        """One text with commas, as an environment variable gives it, is a list."""
        return [part.strip() for part in tokens.split(",") if part.strip()] if isinstance(tokens, str) else tokens

    @field_validator("tokens")
    @classmethod
    def _tokens_are_long(cls, tokens: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(token.get_secret_value()) < MIN_TOKEN_CHARACTERS for token in tokens):
            raise ValueError(
                f"a token has fewer than {MIN_TOKEN_CHARACTERS} characters; make one: openssl rand -hex 32"
            )
        return tokens

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies_are_networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            ipaddress.ip_network(proxy)  # ValueError names it
        return proxies

    @model_validator(mode="after")
    def _key_goes_with_certificate(self) -> ServeSettings:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together")
        return self

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_exposed(self) -> bool:
        """Whether callers of other machines reach the server, directly or through a proxy."""
        return not self.is_loopback or bool(self.trusted_proxies)

    def problems(self) -> list[str]:
        """What is missing before the server may be reached from other machines."""
        if not self.is_exposed:
            return []
        found = []
        exposed = _EXPOSED.format(host=self.host) if not self.is_loopback else "serve.trusted_proxies is set"
        if not self.tokens:
            found.append(f"{exposed}, but serve.tokens is empty; make a token: openssl rand -hex 32")
        if not self.is_loopback and self.tls_cert is None and not self.trusted_proxies:
            found.append(
                f"{exposed}: set serve.tls_cert and serve.tls_key, or declare the proxy in serve.trusted_proxies"
            )
        if not self.hostnames and (self.trusted_proxies or self.host in ("0.0.0.0", "::")):
            found.append(f"{exposed}, but serve.hostnames is empty; list the names that callers use")
        return found
