"""`content init`, `doctor`, `quota`, and the options that every command has."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from docstokg_assets.sandbox import Sandbox

if TYPE_CHECKING:
    from docstokg_assets_tests.support.program import Ended, Place

WORKS_PER_YEAR = 12
Content = Callable[..., "Ended"]


@pytest.mark.requirement("CLI-5")
def test_init_writes_a_private_commented_file_once(
    content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert content("init", "--yes").code == 2, "no address is known"
    first = content(
        "init", "--yes", "--email", "me@library-of-tests.edu", "--out", "my papers", "--openalex-key", "k1'\""
    )
    assert first.code == 0, first.err
    text = Path("content.yaml").read_text()
    assert stat.S_IMODE(Path("content.yaml").stat().st_mode) == 0o600 and text.count("#") > 5
    shown = json.loads(content("print-config", "-c", "content.yaml", "--json").out)
    assert shown["http"]["contact_email"] == "me@library-of-tests.edu" and shown["data_root"] == "my papers"
    again = content("init", "--yes", "--email", "other@library-of-tests.edu")
    assert again.code == 0 and "nothing was changed" in again.out and Path("content.yaml").read_text() == text
    assert content("init", "-c", "/no/such/folder/x.yaml", "--yes", "--email", "me@library-of-tests.edu").code == 2
    bad = content("init", "-c", "b.yaml", "--yes", "--email", "you@example.org")
    assert bad.code == 2 and "placeholder" in bad.err and not Path("b.yaml").exists()


@pytest.mark.requirement("CLI-5")
def test_doctor_names_each_problem_with_its_remedy(
    box: Sandbox, place: Place, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("doctor", "--config", str(place.config), "--out", str(place.out))
    well = content(*arguments, "--json")
    found = {one["name"]: one for one in json.loads(well.out)}
    assert well.code == 0, well.out
    assert {name for name, one in found.items() if one["state"] != "ok"} <= {"OpenAlex", "disk"}
    assert {"Python", "data folder", "disk", "clock", "proxy", "TLS", "contact", "limits", "catalog"} <= found.keys()
    assert not place.out.exists(), "it changes nothing"
    monkeypatch.setenv("DOCSTOKG_CONTENT_API_KEY_CORE", "wrong")
    box.add_fault(host="api.core.ac.uk", status=401)
    bad = content(*arguments)
    assert bad.code == 3 and "error   key of core: api.core.ac.uk rejects it (HTTP 401)" in bad.out
    assert "wrong" not in bad.out
    box.control("DELETE", "arrivals")
    place.write(data_root=str(place.config / "x"))
    offline = content("doctor", "--config", str(place.config), "--offline")
    assert offline.code == 3 and "is a file" in offline.out and box.arrivals() == []
    place.write(workers=0)
    assert content("doctor", "--config", str(place.config)).code == 2


@pytest.mark.requirement("CLI-5")
def test_a_proxy_that_is_gone_is_an_error_not_a_crash(place: Place, content: Content) -> None:
    place.write(http__proxy="http://127.0.0.1:9")
    ended = content("doctor", "--config", str(place.config), "--out", str(place.out))
    assert ended.code == 3 and "http.proxy" in ended.out


@pytest.mark.requirement("CLI-5")
def test_quota_shows_what_openalex_says(box: Sandbox, place: Place, content: Content) -> None:
    shown = json.loads(content("quota", "--config", str(place.config), "--out", str(place.out), "--json").out)
    assert shown[0]["name"] == "OpenAlex (without a key)" and shown[0]["left"].endswith(" credits")
    table = content("quota", "--config", str(place.config), "--out", str(place.out))
    assert table.code == 0 and shown[0]["left"] in table.out and "\x1b" not in table.out
    box.add_fault(host="api.openalex.org", path="/rate-limit*", status=401)
    rejected = content("quota", "--config", str(place.config), "--out", str(place.out))
    assert rejected.code == 3 and "key was rejected" in rejected.out


@pytest.mark.requirement("CLI-1")
def test_names_retry_force_and_the_common_options(box: Sandbox, place: Place, content: Content) -> None:
    gold = next(work for work in box.universe.works(2024) if work.archetype == "gold")
    preview = content(*place.arguments(gold.id, "--name", "{author}-{year}-{title}", "--dry-run"))
    assert f"__{gold.id}.pdf" in preview.out and "as         PDF/" in preview.out
    quiet = content(*place.arguments(gold.id, "--name", "{author}-{year}-{title}", "-q"))
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    ((path,),) = place.rows("SELECT path FROM catalog_entries")
    assert path in preview.out and "-2024-" in path and (place.out / path).is_file()
    data = ("--config", str(place.config), "--out", str(place.out))
    box.control("DELETE", "arrivals")
    assert content(*place.arguments(gold.id, "--force")).code == 0
    host = urlsplit(str(box.universe.truth(gold.id).url)).hostname
    assert any(seen["host"] == host for seen in box.arrivals()), "searched again"
    box.control("DELETE", "arrivals")
    again = content("retry", gold.doi, path.rpartition("/")[2], *data)
    assert again.code == 0 and f"{gold.id}: ok" in again.err, again.err
    assert any(seen["host"] == host for seen in box.arrivals())
    assert content("retry", "W1", *data).code == 3
    stats = json.loads(content("catalog", "stats", *data, "--json").out)
    assert stats == json.loads(content("catalog", "stats", *data, "--format", "json").out)
    for command in (("pull",), ("report",), ("catalog", "stats"), ("doctor",)):
        assert (
            content(*command, "-h").out == content(*command, "--help").out and "--quiet" in content(*command, "-h").out
        )


@pytest.mark.requirement("CLI-1")
@pytest.mark.parametrize(
    "template", ["../{title}", "/tmp/{title}", "{title}/{id}", "{nothing}", "{title!r}", "{title", "plain", ".{id}"]
)
def test_a_template_that_could_leave_the_folder_or_collide_is_refused(
    place: Place, content: Content, template: str
) -> None:
    ended = content(*place.arguments("W1", "--name", template))
    assert ended.code == 2 and "download.file_name" in ended.err and not place.out.exists()


@pytest.mark.requirement("CLI-1")
def test_what_why_recommends_can_be_pasted(box: Sandbox, place: Place, content: Content) -> None:
    lost = next(work for work in box.universe.works() if not box.universe.truth(work.id).reachable)
    content(*place.arguments(lost.id))
    told = json.loads(content("why", lost.id, "--config", str(place.config), "--out", str(place.out), "--json").out)
    (command,) = [part for line in told["help"] for part in line.split("`") if part.startswith("content retry")]
    assert content(*command.split()[1:]).code in (0, 3)
    assert os.fspath(place.out) in command


@pytest.mark.requirement("CLI-1")
def test_out_is_the_data_folder_and_to_the_target(box: Sandbox, place: Place, content: Content) -> None:
    content(*place.arguments(next(iter(box.universe.works(2024))).id))
    file, old = place.folder / "a.parquet", place.folder / "b.parquet"
    export = ("telemetry", "export", "--config", str(place.config))
    assert content(*export, "--out", str(place.out), "--to", str(file)).code == 0
    assert content(*export, "--data-root", str(place.out), "--out", str(old)).code == 0, "as before"
    assert file.stat().st_size > 0 and old.stat().st_size > 0
