"""HAProxy with a bounded queue in front of a runtime, as a child process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

HOW = "apt install haproxy"


@contextmanager
def in_front_of(url: str, *arguments: str) -> Iterator[str]:
    """Its address, while it runs."""
    command = [sys.executable, "-m", "tools.haproxy_front", url, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        try:
            said, address = child.stdout.readline().split()
            assert said == "listening"
            yield address
        finally:
            child.terminate()
        assert child.wait(10) == 0
