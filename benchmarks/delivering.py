"""Brings to the database what lies in this host's spool: when a worker starts, before it claims, and with each sweep."""

from __future__ import annotations

import logging
from pathlib import Path

from django.db import Error, InterfaceError, OperationalError, close_old_connections

from benchmarks import claims, engine_child, recording, spool
from benchmarks.claims import Claim
from benchmarks.recording import Delivery
from benchmarks.records.result import Result

log = logging.getLogger(__name__)

_NOT_THERE = (OperationalError, InterfaceError)
"""The database does not answer, or its disk is full: the same result may be taken later. Other errors stay errors."""


class NotTakenError(Exception):
    """The database took nothing now; the message says why. What lies in the spool stays there."""


def deliver_all() -> int:
    """Delivers what lies here, the oldest first; how many files left the spool. Ends early where no database answers."""
    left = 0
    for path in spool.waiting():
        try:
            left += deliver_file(path)
        except NotTakenError as error:
            log.warning("%s stays in the spool: %s", path.name, error)
            break
        except OSError as error:  # one file that cannot be read keeps no other, and no cell, waiting
            log.error("%s stays in the spool and cannot be read: %s", path.name, error)
    return left


def deliver_file(path: Path) -> bool:
    """Whether the file left the spool by this call. Raises NotTakenError."""
    try:
        kept = spool.read(path)
    except FileNotFoundError:
        return False
    except spool.DamagedError as error:
        log.error(
            "a result in the spool cannot be read (%s); it is kept as %s", error, spool.set_aside(path, "damaged")
        )
        return True
    became = deliver(kept.claim, kept.result, path)
    if became is Delivery.RESULT:
        log.info("%s was delivered from the spool", path.name)
    return True


def deliver(claim: Claim, result: Result, path: Path | None) -> Delivery:
    """One try to store a result, which lies at `path` where the disk took it. Raises NotTakenError."""
    try:
        became = recording.deliver(claim=claim, result=result)
    except _NOT_THERE as error:
        close_old_connections()
        raise NotTakenError(str(error).strip()) from error
    except Error as error:
        close_old_connections()
        became = _refused(claim, path, error)
    _told(became, claim, path)
    return became


def _told(became: Delivery, claim: Claim, path: Path | None) -> None:
    which = f"cell {claim.cell_id}, attempt {claim.attempt}"
    if became is Delivery.UNKNOWN:
        where = spool.set_aside(path, "unknown") if path and path.exists() else "nowhere"
        log.error("%s: this database knows no such attempt; the result is kept as %s", which, where)
        return
    if became is Delivery.SUPERSEDED:
        log.warning("%s came after a newer attempt: kept as superseded evidence", which)
    if became is Delivery.RESULT:
        engine_child.ledger_of(claim).unlink(missing_ok=True)
    if path is not None and became is not Delivery.REFUSED:
        spool.remove(path)


def _refused(claim: Claim, path: Path | None, error: Error) -> Delivery:
    """The database answers and does not want it: asking again would not help, so a person has to look."""
    where = spool.set_aside(path, "refused") if path and path.exists() else "nowhere"
    words = f"The database refused the result ({str(error).strip()[:150]}); it is kept as {where}."
    log.error("cell %s: %s", claim.cell_id, words)
    claims.interrupt(claim=claim, reason=words)
    return Delivery.REFUSED
