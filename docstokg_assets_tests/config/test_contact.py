"""Who may ask the real web, how the sandbox is recognised, and where SQLite may not live."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from docstokg_assets.config import ContentDownloadConfig, is_sandbox, require_contact
from resources.mounts import network_filesystem, refuse_network_filesystem
from resources.settings import SettingsError


def certificate(common_name: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.datetime(2026, 1, 1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=9000))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def config(**http: Any) -> ContentDownloadConfig:
    return ContentDownloadConfig.model_validate({"http": http})


@pytest.mark.requirement("HTTP-5")
@pytest.mark.parametrize(
    "address",
    [
        None,
        "",
        "me",
        "me@",
        "me@localhost",
        "me@example.com",
        "me@mail.example.org",
        "me@x.invalid",
        "a b@c.org",
        "<a@c.org>",
    ],
)
def test_the_real_web_is_refused_without_a_contact_that_somebody_reads(address: str | None) -> None:
    with pytest.raises(SettingsError, match="DTKG_HTTP__CONTACT_EMAIL"):
        require_contact(config(contact_email=address))


@pytest.mark.parametrize("address", ["crawler@uni-example.edu", "first.last+tag@lib.uni.ac.uk", "me@notexample.com"])
def test_a_real_address_opens_the_real_web(address: str) -> None:
    require_contact(config(contact_email=address))


def test_the_sandbox_is_known_by_its_authority_behind_a_local_proxy(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_bytes(certificate("DocsToKG Sandbox CA"))
    for proxy in ("http://127.0.0.1:8899", "http://localhost:1", "http://[::1]:1"):
        assert is_sandbox(config(proxy=proxy, ca_bundle=bundle).http)
        require_contact(config(proxy=proxy, ca_bundle=bundle))


def test_nothing_else_passes_for_the_sandbox(tmp_path: Path) -> None:
    box, real, both, junk = (tmp_path / name for name in ("box.pem", "real.pem", "both.pem", "junk.pem"))
    box.write_bytes(certificate("DocsToKG Sandbox CA"))
    real.write_bytes(certificate("Somebody Else"))
    both.write_bytes(box.read_bytes() + real.read_bytes())
    junk.write_text("DocsToKG Sandbox CA")
    local = "http://127.0.0.1:8899"
    assert not is_sandbox(config(proxy="http://10.0.0.1:8899", ca_bundle=box).http)
    assert not is_sandbox(config(proxy="http://127.0.0.1.evil.org:1", ca_bundle=box).http)
    assert not is_sandbox(config(ca_bundle=box).http)
    assert not is_sandbox(config(proxy=local).http)
    for bundle in (real, both, junk, tmp_path / "missing.pem"):
        assert not is_sandbox(config(proxy=local, ca_bundle=bundle).http)


MOUNTS = """\
overlay / overlay rw 0 0
proc /proc proc rw 0 0
server:/export /nfs nfs4 rw 0 0
/dev/sda1 /nfs/scratch ext4 rw 0 0
//server/share /mnt/my\\040share cifs rw 0 0
me@host: /home/me/far fuse.sshfs rw 0 0
host /host 9p rw 0 0
"""


@pytest.mark.requirement("CFG-7")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/catalog.sqlite3", None),
        ("/nfs/data/catalog.sqlite3", "nfs4"),
        ("/nfsx/catalog.sqlite3", None),
        ("/nfs/scratch/catalog.sqlite3", None),
        ("/mnt/my share/x", "cifs"),
        ("/home/me/far/x", "fuse.sshfs"),
        ("/host/x", None),
    ],
)
def test_a_network_file_system_is_recognised_by_the_nearest_mount(path: str, expected: str | None) -> None:
    assert network_filesystem(Path(path), MOUNTS) == expected


def test_the_later_of_two_mounts_at_one_place_counts() -> None:
    assert network_filesystem(Path("/a/x"), "d /a nfs rw 0 0\nd /a ext4 rw 0 0\n") is None


@pytest.mark.requirement("CFG-7")
def test_a_network_file_system_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_network_filesystem(tmp_path / "catalog.sqlite3")
    monkeypatch.setattr(Path, "read_text", lambda *_args, **_kwargs: f"server:/x {tmp_path.resolve()} nfs rw 0 0\n")
    with pytest.raises(SettingsError, match=r"network file system \(nfs\).*put data_root .* on a local disk"):
        refuse_network_filesystem(tmp_path / "catalog.sqlite3")
