"""The two kinds of key files of a Headroom, and what is signed with them.

The web keeps one key, with which it signs each authorisation. A worker keeps one for each host it was enrolled for,
beside the public half of the web's: by it the worker knows what it may do, whatever the database says. Both are files
of mode 600, and stand in no database and no log.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from django.conf import settings

from benchmarks.models import Authorization, Cell, Evidence, WorkerKey
from benchmarks.records import signatures
from benchmarks.records.result import Result
from benchmarks.records.signatures import AUTHORIZATION, EVIDENCE, Fact


class Enrolled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker keeps of its enrolment: `number` is that of its WorkerKey, `web_key` the web's public half."""

    hardware: str
    number: int
    private_key: str
    web_key: str

    @property
    def public_key(self) -> str:
        return signatures.public_key(self.private_key)


# --- the web's key ----------------------------------------------------------------------------------------------------


def web_public_key() -> str:
    """The public half of the web's key, which is made when it is first asked for."""
    return signatures.public_key(_web_private_key())


def web_key_is_here() -> bool:
    """Whether this process can read the web's own key: then it is as trusted as the web itself."""
    return os.access(settings.WEB_KEY_FILE, os.R_OK)


def sign_authorization(leave: Authorization) -> None:
    """Signs an authorisation that is not stored yet; afterwards it never changes."""
    key = _web_private_key()
    leave.signature = signatures.sign(key, AUTHORIZATION, facts_of_authorization(leave))
    leave.signed_by = signatures.fingerprint(signatures.public_key(key))


def facts_of_authorization(leave: Authorization) -> dict[str, Fact]:
    """All that an authorisation allows, and who gave it to whom."""
    return {
        "grid": leave.grid_id,
        "grid_digest": leave.grid_digest,
        "hardware": leave.grid.hardware.slug,
        "target": leave.target,
        "requested_by": leave.requested_by_id,
        "authorized_by": leave.authorized_by_id,
        "valid_from": _instant(leave.valid_from),
        "valid_until": _instant(leave.valid_until),
        "max_concurrency": leave.max_concurrency,
        "max_requests": leave.max_requests,
        "max_tokens": leave.max_tokens,
        "max_minutes": float(leave.max_minutes),
        "max_temperature_c": _number(leave.max_temperature_c),
        "max_power_w": _number(leave.max_power_w),
    }


def _web_private_key() -> str:
    path: Path = settings.WEB_KEY_FILE
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(f"{path.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                _write(path, signatures.new_private_key().encode())
    return path.read_text(encoding="ascii").strip()


# --- the worker's key -------------------------------------------------------------------------------------------------


def enrolled(slug: str) -> Enrolled | None:
    """What this worker keeps of its enrolment for a host; None where there is none, or none that can be read."""
    try:
        return msgspec.json.decode(_enrolled_file(slug).read_bytes(), type=Enrolled)
    except (OSError, msgspec.MsgspecError):
        return None


def pinned_web_key(slug: str) -> str:
    """The web's public half as this worker pinned it; empty where it is not enrolled for the host."""
    own = enrolled(slug)
    return own.web_key if own else ""


def keep_enrolled(kept: Enrolled) -> None:
    """Keeps it, in place of an earlier one of the same host."""
    path = _enrolled_file(kept.hardware)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(path, msgspec.json.encode(kept))


def cell_name(cell: Cell) -> str:
    """What a cell is called within its plan, in every database that its grid is moved to."""
    return f"{cell.setting}-{cell.class_name}-r{cell.repeat}{f'-{cell.probe}' if cell.probe else ''}"


def signed(result: Result, *, hardware: str, grid_digest: str, cell: str, attempt: int) -> Result:
    """The result with this worker's signature; as it is where the worker was never enrolled for the host."""
    own = enrolled(hardware)
    if own is None:
        return result
    facts = _facts_of_evidence(grid_digest, cell, attempt, result.sha256, result.schema_version)
    signature = signatures.sign(own.private_key, EVIDENCE, facts)
    return msgspec.structs.replace(result, signature=signature, key_id=own.number)


def evidence_is_signed(evidence: Evidence) -> bool:
    """Whether the key that the evidence names belongs to the grid's host and signed exactly this."""
    key: WorkerKey | None = evidence.key
    grid = evidence.cell.grid
    if key is None or key.hardware_id != grid.hardware_id:
        return False
    name = cell_name(evidence.cell)
    facts = _facts_of_evidence(grid.digest, name, evidence.attempt, evidence.sha256, evidence.schema_version)
    return signatures.holds(key.public_key, EVIDENCE, facts, evidence.signature)


def _facts_of_evidence(grid_digest: str, cell: str, attempt: int, sha256: str, schema: int) -> dict[str, Fact]:
    return {"grid_digest": grid_digest, "cell": cell, "attempt": attempt, "sha256": sha256, "schema": schema}


def _enrolled_file(slug: str) -> Path:
    return Path(settings.VAR) / "enrolled" / f"{slug}.json"


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, readable by its owner only."""
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    Path(beside).replace(path)


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)
