"""The committed gRPC code is that of the proto file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PROTO = "docstokg_assets/serve/proto/ingest.proto"


@pytest.mark.requirement("ING-8")
def test_the_generated_code_is_current(tmp_path: Path) -> None:
    # make it again with: python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. PROTO
    outs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I.", *outs, PROTO], cwd=PROJECT, check=True)
    made = sorted(path for path in tmp_path.rglob("ingest_pb2*"))
    assert len(made) == 3
    for path in made:
        assert path.read_text() == (PROJECT / path.relative_to(tmp_path)).read_text(), path.name
