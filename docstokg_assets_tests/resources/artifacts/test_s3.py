"""The store on S3: what the server checks, what happens when its answers are lost, and what a person is told."""

from __future__ import annotations

import hashlib
import itertools
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets_tests.support.servers import S3_PART_BYTES, LossyProxy, SeaweedFs, free_port, s3_bucket
from resources.artifacts.s3 import MULTIPART_FROM, S3Store, s3_client
from resources.artifacts.settings import ArtifactSettings
from resources.artifacts.store import NameTaken, StoreError

SMALL = b"%PDF-1.7 a small file"
LARGE = b"%PDF-1.7" + b"y" * (2 * S3_PART_BYTES)
Spoil = Callable[[str, str], int | str | None]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses between botocore's tries take no time."""
    monkeypatch.setattr("botocore.endpoint.time", types.SimpleNamespace(sleep=lambda seconds: None))


@pytest.fixture
def lossy() -> Iterator[Callable[[str, Spoil], LossyProxy]]:
    running: list[LossyProxy] = []

    def make(url: str, spoil: Spoil) -> LossyProxy:
        running.append(LossyProxy(url, spoil))
        return running[-1]

    yield make
    for proxy in running:
        proxy.close()


def put(store: S3Store, path: str, content: bytes, sha256: str | None = None) -> str:
    part = store.begin("PDF")
    part.write(content)
    return store.commit(part, path, sha256 or hashlib.sha256(content).hexdigest()).path


def only(content: bytes, store: S3Store) -> bool:
    """Whether this is all there is: one object with these bytes, no upload under way, no part."""
    (found,) = store.iter_files("PDF")
    assert store.stale_parts(-60, "PDF") == []
    return store.sha256_of(found.path) == (hashlib.sha256(content).hexdigest(), len(content))


def writes(proxy: LossyProxy) -> list[str]:
    return [line for line in proxy.asked if line.startswith(("PUT", "POST"))]


@pytest.mark.requirement("DL-10")
@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["whole", "in pieces"])
def test_fault_41_bursts_of_503_are_outlived(
    seaweedfs: SeaweedFs, s3_store: Callable[..., S3Store], lossy: Any, content: bytes
) -> None:
    numbers = itertools.count()
    proxy = lossy(seaweedfs.url, lambda verb, path: 503 if next(numbers) % 4 else None)  # three of four
    store = s3_store(proxy.url)
    assert put(store, "PDF/x.pdf", content) == "PDF/x.pdf"
    assert only(content, store)
    assert any(line.endswith("503") for line in writes(proxy))


@pytest.mark.requirement("DL-10")
def test_fault_41_a_long_time_of_bursts_does_not_use_up_the_patience_of_a_run(
    moto: str, s3_store: Callable[..., S3Store], lossy: Any
) -> None:
    numbers = itertools.count()
    store = s3_store(lossy(moto, lambda verb, path: 503 if next(numbers) % 4 else None).url)
    for number in range(80):
        put(store, f"PDF/{number}.pdf", SMALL)


@pytest.mark.requirement("DL-10")
@pytest.mark.parametrize("server", ["seaweedfs", "moto"])
def test_fault_41_a_lost_answer_to_a_put_is_success_when_the_bytes_are_there(
    request: pytest.FixtureRequest, s3_store: Callable[..., S3Store], lossy: Any, server: str
) -> None:
    behind = request.getfixturevalue(server)
    first = iter(["lost"])
    proxy = lossy(getattr(behind, "url", behind), lambda verb, path: next(first, None) if verb == "PUT" else None)
    store = s3_store(proxy.url)
    put(store, "PDF/x.pdf", SMALL)
    assert only(SMALL, store)
    assert [line.rpartition(" ")[2] for line in writes(proxy)] == ["lost", "412"]  # the second was told: it is there


@pytest.mark.requirement("DL-10")
def test_fault_41_a_lost_answer_to_the_end_of_an_upload_is_success_too(
    seaweedfs: SeaweedFs, s3_store: Callable[..., S3Store], lossy: Any
) -> None:
    first = iter(["lost"])

    def spoil(verb: str, path: str) -> str | None:
        return next(first, None) if verb == "POST" and "uploadId=" in path else None

    proxy = lossy(seaweedfs.url, spoil)
    store = s3_store(proxy.url)
    put(store, "PDF/x.pdf", LARGE)
    assert only(LARGE, store)
    assert any(line.endswith("lost") for line in proxy.asked)


@pytest.mark.requirement("DL-10")
def test_fault_41_a_server_that_stays_away_is_told_and_nothing_is_left_here(
    seaweedfs: SeaweedFs, s3_store: Callable[..., S3Store], lossy: Any, tmp_path: Path
) -> None:
    proxy = lossy(seaweedfs.url, lambda verb, path: 503 if verb == "PUT" else None)
    store = s3_store(proxy.url)
    with pytest.raises(
        StoreError, match=r"s3://papers/.*/PDF/x\.pdf: 503\. Check the server, then run the same command"
    ):
        put(store, "PDF/x.pdf", SMALL)
    assert len(writes(proxy)) == 6  # as often as it is configured, by botocore and by nobody else
    assert list(store.iter_files("PDF")) == [] and list((tmp_path / "spool").rglob(".part-*")) == []


@pytest.mark.requirement("DL-10")
@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["whole", "in pieces"])
def test_the_server_checks_what_arrives(
    seaweedfs: SeaweedFs, s3_store: Callable[..., S3Store], monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """Bytes that were changed between the hash and the wire are not kept."""
    store = s3_store(seaweedfs.url)
    if content is LARGE:
        monkeypatch.setattr("resources.artifacts.s3._base64", lambda digest: "A" * 43 + "=")
    with pytest.raises(StoreError, match="BadDigest"):
        put(store, "PDF/x.pdf", content, sha256=hashlib.sha256(b"other bytes").hexdigest())
    assert list(store.iter_files("PDF")) == [] and store.stale_parts(-60, "PDF") == []


@pytest.mark.requirement("DL-10")
def test_files_from_50_mb_on_are_sent_in_pieces(
    seaweedfs: SeaweedFs, s3_store: Callable[..., S3Store], lossy: Any
) -> None:
    assert MULTIPART_FROM == 50 * 1024 * 1024
    proxy = lossy(seaweedfs.url, lambda verb, path: None)
    store = s3_store(proxy.url, multipart_from=len(LARGE))
    put(store, "PDF/large.pdf", LARGE)
    assert sum("partNumber=" in line for line in writes(proxy)) == 3
    before = len(writes(proxy))
    put(store, "PDF/small.pdf", LARGE[:-1])
    assert len(writes(proxy)) == before + 1


@pytest.mark.requirement("TRU-1")
def test_an_object_that_somebody_else_put_there_stays(seaweedfs: SeaweedFs, s3_store: Callable[..., S3Store]) -> None:
    client = s3_bucket(seaweedfs.url, SeaweedFs.user, SeaweedFs.password)
    store = s3_store(seaweedfs.url, prefix="of-nobody")
    for name, content in (("small", SMALL), ("large", LARGE)):
        client.put_object(Bucket="papers", Key=f"of-nobody/PDF/{name}.pdf", Body=b"theirs")
        with pytest.raises(NameTaken):
            put(store, f"PDF/{name}.pdf", content)
        assert store.sha256_of(f"PDF/{name}.pdf")[1] == 6


def test_by_hash_an_object_that_somebody_else_put_there_is_compared_by_its_bytes(
    seaweedfs: SeaweedFs, s3_store: Callable[..., S3Store]
) -> None:
    client = s3_bucket(seaweedfs.url, SeaweedFs.user, SeaweedFs.password)
    store = s3_store(seaweedfs.url, "cas", prefix="of-others")
    sha256 = hashlib.sha256(SMALL).hexdigest()
    path = f"cas/{sha256[:2]}/{sha256[2:4]}/{sha256}.pdf"
    key = {"Bucket": "papers", "Key": f"of-others/{path}"}
    client.put_object(**key, Body=SMALL)
    kept = client.head_object(**key)["LastModified"]
    assert put(store, "PDF/x.pdf", SMALL) == path
    assert client.head_object(**key)["LastModified"] == kept
    client.put_object(**key, Body=SMALL[::-1])  # as long, and not the same
    put(store, "PDF/x.pdf", SMALL)
    assert store.sha256_of(path) == (sha256, len(SMALL))


@pytest.mark.requirement("CAT-3")
def test_an_upload_that_was_never_ended_is_found_and_removed(
    seaweedfs: SeaweedFs, s3_store: Callable[..., S3Store]
) -> None:
    client = s3_bucket(seaweedfs.url, SeaweedFs.user, SeaweedFs.password)
    client.create_multipart_upload(Bucket="papers", Key="left/PDF/x.pdf")
    store = s3_store(seaweedfs.url, prefix="left")
    assert store.stale_parts(3600, "PDF") == []
    (left,) = store.stale_parts(-60, "PDF")
    assert store.delete(left.path) and store.stale_parts(-60, "PDF") == []


@pytest.mark.requirement("CAT-3", "ORC-6")
def test_an_upload_that_another_machine_has_removed_meanwhile_is_nothing_to_delete(
    moto: str, s3_store: Callable[..., S3Store]
) -> None:
    store = s3_store(moto, prefix="gone")
    assert store.delete("PDF/x.pdf?uploadId=nobody-knows-it") is False


# -- what a person is told --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "variables", "told"),
    [
        (
            {"bucket": "no-such-bucket"},
            {},
            "s3://no-such-bucket/papers/: 404. Create the bucket, or correct artifacts.bucket.",
        ),
        ({}, {"AWS_SECRET_ACCESS_KEY": "wrong"}, "s3://papers/papers/: 403. Give these credentials the right"),
        ({}, {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ({"endpoint_url": "nobody"}, {}, "Check the network and artifacts.endpoint_url."),
    ],
    ids=["bucket", "secret", "none", "endpoint"],
)
def test_a_store_that_cannot_be_used_is_refused_when_opened_with_the_remedy(
    seaweedfs: SeaweedFs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    variables: dict[str, str],
    told: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if "endpoint_url" in settings:
        settings = {"endpoint_url": f"http://127.0.0.1:{free_port()}"}
    values = {
        "store": "s3",
        "bucket": "papers",
        "prefix": "papers",
        "endpoint_url": seaweedfs.url,
        "region": "us-east-1",
    }
    with pytest.raises(StoreError) as refused:
        ArtifactSettings.model_validate(values | settings).open(tmp_path)
    assert told in str(refused.value)
    assert SeaweedFs.password not in str(refused.value)


def test_a_place_is_named_as_people_name_it(moto: str, tmp_path: Path) -> None:
    store = S3Store(s3_client(moto, "us-east-1"), "papers", "/of/ours/", tmp_path)
    assert (store.place(), store.place("PDF")) == ("s3://papers/of/ours/", "s3://papers/of/ours/PDF")


@pytest.mark.parametrize(
    ("values", "told"), [({"store": "s3"}, "store s3 needs a bucket"), ({"bucket": "x"}, "a bucket needs store: s3")]
)
def test_bucket_and_store_go_together(values: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ArtifactSettings.model_validate(values)
