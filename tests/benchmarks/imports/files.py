"""Trace files for tests: heads of public ones, and small ones with the same shape made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "data" / "traces"


def file(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def csv(*rows: str) -> bytes:
    return "\n".join(rows).encode()


def jsonl(*rows: Any) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def own(*pairs: tuple[int, int], times: tuple[float, ...] | None = None) -> bytes:
    """An own CSV of (prompt, output), with times in seconds where they are given."""
    if times is None:
        return csv("prompt_tokens,output_tokens", *(f"{p},{o}" for p, o in pairs))
    return csv("time_s,prompt_tokens,output_tokens", *(f"{t},{p},{o}" for t, (p, o) in zip(times, pairs, strict=True)))
