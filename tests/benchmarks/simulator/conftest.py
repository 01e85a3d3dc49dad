"""Simulators as real processes on loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import httpx
import pytest

Start = Callable[..., str]


@pytest.fixture(scope="module")
def start_simulator() -> Iterator[Start]:
    """`start_simulator("--active", "2")` returns the address; all of them end with the module."""
    children: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> str:
        command = [sys.executable, "-m", "benchmarks.simulator", "--with-parent", *arguments]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        children.append(child)
        assert child.stdout is not None
        said, _, url = child.stdout.readline().strip().partition(" ")
        assert said == "listening"
        return url

    yield start
    for child in children:
        child.terminate()
    for child in children:
        assert child.wait(10) == 0
        assert child.stdout is not None
        child.stdout.close()


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=20.0) as ours:
        yield ours
