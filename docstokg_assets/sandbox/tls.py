"""The throw-away certificate authority: new at each start, with leaf certificates issued on demand.

Production code recognises the sandbox by the common name of this CA. The CA's key never leaves memory; leaf keys
touch the disk (mode 0600, in the state folder) only because the `ssl` module loads keys from files, and are removed
at once.
"""

from __future__ import annotations

import datetime as dt
import os
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_NAME = "DocsToKG Sandbox CA"
BUNDLE_NAME = "sandbox-ca.pem"


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


class Authority:
    """Issue leaf certificates and keep one server context per host."""

    def __init__(self, state_dir: Path) -> None:
        self._dir = state_dir
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())  # one for all leaves: issuing is then one signature
        self._cert = self._make_ca()
        self._contexts: dict[str, ssl.SSLContext] = {}
        self.bundle = state_dir / BUNDLE_NAME

    def write_bundle(self) -> Path:
        temporary = self.bundle.with_suffix(".tmp")
        temporary.write_bytes(self._cert.public_bytes(serialization.Encoding.PEM))
        temporary.replace(self.bundle)
        return self.bundle

    def context(self, host: str) -> ssl.SSLContext:
        if host not in self._contexts:
            self._contexts[host] = self._make_context(host)
        return self._contexts[host]

    def _make_ca(self) -> x509.Certificate:
        public = self._key.public_key()
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        return (
            self._builder(_name(CA_NAME), public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(_name(CA_NAME))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=30))
        )

    def _make_leaf(self, host: str) -> bytes:
        leaf = (
            self._builder(_name(host[:64]), self._leaf_key.public_key())
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return leaf.public_bytes(serialization.Encoding.PEM)

    def _make_context(self, host: str) -> ssl.SSLContext:
        key = self._leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        handle, name = tempfile.mkstemp(dir=self._dir, prefix="leaf-", suffix=".pem")  # created with mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self._make_leaf(host) + key)
            context.load_cert_chain(name)
        finally:
            os.unlink(name)
        return context
