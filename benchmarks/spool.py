"""Results that lie on this host until a database has taken them: written whole before the first try, removed after it.

A file is written beside its name, brought to the disk and renamed, so that it is there whole or not at all. Its name tells
the grid, cell and attempt; its first bytes are a digest of the rest. One that cannot be read, or that no attempt of this
database left, is set aside under another name: a person decides about it, nothing here deletes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import msgspec
from django.conf import settings

from benchmarks.claims import Claim
from benchmarks.records.result import Result

MAGIC = b"HEADROOM-SPOOL 1\n"
SUFFIX, NEW = ".result", ".new"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A result with the attempt that it is of."""

    claim: Claim
    result: Result


class DamagedError(ValueError):
    """The file is not whole; the message says what is wrong with it."""


def folder() -> Path:
    return Path(settings.VAR) / "spool"


def put(claim: Claim, result: Result) -> Path:
    """Brings a result to the disk, over an earlier file of the same attempt. Raises OSError, and leaves no half then."""
    where = folder()
    where.mkdir(parents=True, exist_ok=True, mode=0o700)
    payload = msgspec.msgpack.encode(Kept(claim=claim, result=result))
    path = where / f"{claim.grid_id}-{claim.cell_id}-{claim.attempt}{SUFFIX}"
    beside = path.with_suffix(NEW)
    try:
        with beside.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            for piece in (MAGIC, hashlib.sha256(payload).digest(), payload):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _to_disk(where)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    return path


def waiting() -> list[Path]:
    """What lies here, the oldest first."""
    found = []
    for path in folder().glob(f"*{SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # another process has just delivered it
            found.append((path.stat().st_mtime_ns, path.name, path))
    return [path for _, _, path in sorted(found)]


def read(path: Path) -> Kept:
    """Raises DamagedError, and FileNotFoundError where another process has delivered it meanwhile."""
    data = path.read_bytes()
    digest, payload = data[len(MAGIC) : len(MAGIC) + 32], data[len(MAGIC) + 32 :]
    if not data.startswith(MAGIC) or hashlib.sha256(payload).digest() != digest:
        raise DamagedError("its digest does not hold")
    try:
        return msgspec.msgpack.decode(payload, type=Kept)
    except msgspec.DecodeError as error:
        raise DamagedError(str(error)) from error


def remove(path: Path) -> None:
    """After the commit; another deliverer may have done so already."""
    path.unlink(missing_ok=True)


def set_aside(path: Path, why: str) -> Path:
    """Keeps the file under a name of its own that says why it was not delivered: `damaged`, `unknown` or `refused`."""
    aside = path.with_suffix(f".{why}")
    while aside.exists():
        aside = aside.with_name(f"{aside.name}+")
    path.replace(aside)
    _to_disk(path.parent)
    return aside


def _to_disk(where: Path) -> None:
    """The folder's own entry; a rename is lost with the power otherwise."""
    descriptor = os.open(where, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
