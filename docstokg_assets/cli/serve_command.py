"""`content serve`: take ingest requests over HTTP, gRPC and Kafka, and search for what they ask. `docstokg_assets.serve` serves.

Exit codes: 0 stopped by a signal; 2 not started.
"""

from __future__ import annotations

from typing import Annotated

import typer

from docstokg_assets.cli.options import Load, with_settings
from docstokg_assets.cli.output import print_message, stderr_console
from docstokg_assets.cli.run_session import disk_errors, log_to
from docstokg_assets.cli.signals import StopSignals
from docstokg_assets.config import require_contact

app = typer.Typer()
_STOPPING = "Stopping: finishing requests in progress. Press Ctrl-C again to quit now."


@app.command("serve")
@with_settings("out", "workers", "host", "port", "grpc_port")
def serve(
    load: Load,
    grpc: Annotated[bool, typer.Option("--grpc", help="Also serve gRPC, on serve.grpc_port.")] = False,
    no_work: Annotated[
        bool, typer.Option("--no-work", help="Only accept requests; another process searches for them.")
    ] = False,
) -> None:
    """Serve the page "Save a paper" and the HTTP API, and search for what is requested. docs/serve.md describes both."""
    from docstokg_assets.serve.server import serving

    loaded = load()
    if not no_work:
        require_contact(loaded.value)
    console = stderr_console()
    signals = StopSignals(console, message=_STOPPING)
    log = log_to(console, loaded.value.data_root / "serve.log")
    opened = serving(loaded, work=not no_work, with_grpc=grpc)
    with disk_errors(loaded.value), signals.handled(), log, opened as running:
        also = f"   gRPC: port {running.grpc.port}" if running.grpc is not None else ""
        print_message(console, f"Save a paper: {running.url}/   API: {running.url}/docs{also}   Press Ctrl-C to stop.")
        signals.stop.wait()
    print_message(console, "Stopped. Open requests stay in the queue.")
