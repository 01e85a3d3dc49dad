"""The simulated runtime as a child process, and what it wrote down."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from benchmarks.records.calibration import read_truths
from benchmarks.simulator.truth import Truth


@contextmanager
def simulator(*arguments: str) -> Iterator[tuple[str, str]]:
    """Its address and its model, while it runs."""
    command = [sys.executable, "-m", "benchmarks.simulator", "--with-parent", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            url = child.stdout.readline().split()[-1]
            yield url, httpx.get(url + "/v1/models", trust_env=False).json()["data"][0]["id"]
        finally:
            child.terminate()


def truths(url: str) -> list[Truth]:
    """Of every request so far, in the order of their arrival."""
    return read_truths(httpx.get(url + "/truth", trust_env=False).content)
