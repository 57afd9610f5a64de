"""`python -m docstokg_assets.sandbox`: run the server as a separate process, as `Sandbox.start` does.

Prints one JSON line with its port and CA bundle when it is ready. On the command line use `content sandbox serve`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .mix import Mix
from .server import PortTaken, serve
from .universe import Universe


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m docstokg_assets.sandbox", description="Serve the scholarly simulated scholarly web."
    )
    parser.add_argument("--state-dir", type=Path, required=True, help="folder for the CA bundle")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--works-per-year", type=int, default=200)
    parser.add_argument("--first-year", type=int, default=2021)
    parser.add_argument("--last-year", type=int, default=2026)
    parser.add_argument("--profile", default="default")
    parser.add_argument("--mix", default="", help="overrides of the profile, as YAML or JSON")
    parser.add_argument("--no-enforce-limits", action="store_true")
    parser.add_argument("--watch-stdin", action="store_true", help="stop when standard input closes")
    return parser


def _announce(port: int, bundle: Path) -> None:
    print(json.dumps({"port": port, "ca_bundle": str(bundle)}), flush=True)


def main() -> int:
    options = _parser().parse_args()
    try:
        mix = Mix.load(options.profile, options.mix)
        universe = Universe(options.seed, options.works_per_year, (options.first_year, options.last_year), mix)
        serve(universe, options.state_dir, port=options.port, enforce_limits=not options.no_enforce_limits,
              ready=_announce,
              watch_stdin=options.watch_stdin)  # fmt: skip
    except (PortTaken, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
