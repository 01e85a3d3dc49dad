"""llama.cpp's own server as a child process, with a tiny random-weight model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SMALL = ("--layers", "4", "--width", "512", "--vocabulary", "8192", "--type", "F16")
PACKAGE = ("xllamacpp", "2026.10.11549")


def write_model(path: Path, *more: str) -> bytes:
    subprocess.run([sys.executable, "-m", "tools.tiny_gguf", str(path), *SMALL, *more], check=True, timeout=60)
    return path.read_bytes()


@contextmanager
def serving(model: Path, *arguments: str) -> Iterator[str]:
    """The address, while the server runs."""
    command = [sys.executable, "-m", "tools.llamacpp_server", str(model), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        try:
            said, address, *package = child.stdout.readline().split()
            assert (said, tuple(package)) == ("listening", PACKAGE)
            yield address
        finally:
            child.terminate()
        assert child.wait(10) == 0
