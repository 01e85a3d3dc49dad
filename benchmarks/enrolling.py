"""Enrolment: which worker a host trusts, and which web a worker trusts.

A host owner makes a one-time key, carries it to the host, and a worker uses it up there: it makes a key pair, gives the
public half, and pins the web's. The newest used key of a host is the only one that counts, so two workers cannot both
serve it. A worker that can read the web's own key file is the web's equal already, and enrols itself.
"""

from __future__ import annotations

import hashlib
import secrets
import socket
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from benchmarks import audit, signing
from benchmarks.models import Hardware, WorkerKey
from benchmarks.records import signatures
from benchmarks.signing import Enrolled

KEY_LASTS = timedelta(hours=24)
_PREFIX = "headroom-enrol"


class EnrolRefused(ValueError):
    """The verb cannot be done now; the message says why and what to do."""


def make_key(*, hardware: Hardware, by: AbstractBaseUser) -> tuple[WorkerKey, str]:
    """A one-time key for one host, and its text, which nobody can read again. Unused ones of the host end with it."""
    token = f"{_PREFIX}.{secrets.token_urlsafe(32)}.{signing.web_public_key()}"
    now = timezone.now()
    with transaction.atomic():
        hardware.worker_keys.filter(used_at__isnull=True, revoked_at__isnull=True).update(
            revoked_at=now, revoked_by_id=by.pk
        )
        key = WorkerKey.objects.create(
            hardware=hardware, token_sha256=_digest(token), created_by_id=by.pk, expires_at=now + KEY_LASTS
        )
        _tell(by.get_username(), "made one-time key", key, {"key": str(key), "until": key.expires_at.isoformat()})
    return key, token


def revoke_key(*, key: WorkerKey, by: AbstractBaseUser) -> None:
    """Takes trust back from a worker, or an unused key out of the world; a running cell is cancelled by its worker."""
    with transaction.atomic():
        revoked = WorkerKey.objects.filter(pk=key.pk, revoked_at__isnull=True).update(
            revoked_at=timezone.now(), revoked_by_id=by.pk
        )
        if not revoked:
            raise EnrolRefused(f"{key} was revoked already.")
        _tell(by.get_username(), "revoked worker key", key, {"key": str(key)})
    key.refresh_from_db()


def enrol(*, hardware: Hardware, token: str, worker: str, at: datetime) -> WorkerKey:
    """Uses a one-time key up on the host it was made for. The worker's private half and the web's public one stay here."""
    key = hardware.worker_keys.filter(token_sha256=_digest(token.strip())).first()
    if key is None:
        raise EnrolRefused(
            f"This is not a one-time key of {hardware.slug}. Copy the whole line from the host's page; a host owner can "
            "make a new one there."
        )
    if refused := _used_up(key, at):
        raise EnrolRefused(refused)
    with transaction.atomic():
        _take_up(key, worker, at, token=token.strip(), web_key=token.strip().rpartition(".")[2])
        _tell(f"worker {worker}", "enrolled", key, {"key": str(key), "public_key": key.public_key})
    return key


def enrol_beside_the_web(hardware: Hardware, *, worker: str, at: datetime) -> None:
    """Enrols a worker that has the web's own key file, where the host never had a worker; the audit tells of it.

    A key that somebody revoked stays revoked: from then on it takes a one-time key.
    """
    embedded = not settings.DATABASE_URL
    if not (embedded or signing.web_key_is_here()) or hardware.worker_keys.filter(used_at__isnull=False).exists():
        return
    try:
        with transaction.atomic():
            key = WorkerKey.objects.create(
                hardware=hardware, token_sha256=_digest(secrets.token_urlsafe(32)), expires_at=at
            )
            _take_up(key, worker, at, web_key=signing.web_public_key())
            said = {"key": str(key), "public_key": key.public_key, "why": "it shares a folder with the web"}
            _tell(f"worker {worker}", "enrolled itself on", key, said)
    except IntegrityError:
        # Another process of this worker did it in the same moment.
        return


def live_key(hardware_id: int) -> WorkerKey | None:
    """The key of the one worker that the host trusts now."""
    return WorkerKey.objects.filter(hardware_id=hardware_id, used_at__isnull=False, revoked_at__isnull=True).first()


def standing(hardware: Hardware) -> dict[str, object]:
    """For the host's page: the trusted key, those that wait to be used, and both, which can be revoked."""
    keys = list(hardware.worker_keys.filter(revoked_at__isnull=True).select_related("created_by"))
    live = next((key for key in keys if key.used_at), None)
    pending = [key for key in keys if not key.used_at and key.expires_at > timezone.now()]
    return {"live": live, "pending": pending, "keys": [*pending, *([live] if live else [])]}


def trusts_another(hardware: Hardware) -> bool:
    """Whether the host trusts a worker that is not this one: then its cells and questions are that worker's to answer."""
    live, own = live_key(hardware.pk), signing.enrolled(hardware.slug)
    return live is not None and (own is None or own.public_key != live.public_key)


def refusal(hardware: Hardware) -> str | None:
    """Why this worker may not serve a host, in words; None when the host trusts it."""
    own = signing.enrolled(hardware.slug)
    if own is None:
        return (
            f"The worker on {socket.gethostname()} is not enrolled for {hardware.slug}. A host owner makes a one-time key on "
            f"the host's page; then run there: manage.py enrol --hardware {hardware.slug}"
        )
    live = live_key(hardware.pk)
    if live is None:
        return f"The key of the worker on {socket.gethostname()} for {hardware.slug} was revoked. Enrol it again."
    if live.public_key != own.public_key:
        return (
            f"{hardware.slug} trusts the worker of {live}, enrolled {live.used_at:%Y-%m-%d %H:%M} UTC, and not the one on "
            f"{socket.gethostname()}."
        )
    return None


def _take_up(key: WorkerKey, worker: str, at: datetime, *, web_key: str, token: str = "") -> None:
    private = signatures.new_private_key()
    key.worker, key.used_at, key.public_key = worker[:200], at, signatures.public_key(private)
    if not (_through_the_door(key, token) if token and _has_only_the_door() else _marked_used(key)):
        raise EnrolRefused(f"{key} was used or revoked in this moment. Make a new one.")
    # Last in the transaction: the file is of no use without the row.
    signing.keep_enrolled(Enrolled(hardware=key.hardware.slug, number=key.pk, private_key=private, web_key=web_key))


def _marked_used(key: WorkerKey) -> bool:
    WorkerKey.objects.filter(hardware_id=key.hardware_id, used_at__isnull=False, revoked_at__isnull=True).update(
        revoked_at=key.used_at
    )
    unused = WorkerKey.objects.filter(pk=key.pk, used_at__isnull=True, revoked_at__isnull=True)
    return bool(unused.update(used_at=key.used_at, worker=key.worker, public_key=key.public_key))


def _has_only_the_door() -> bool:
    """Whether this database role may not write enrolments itself: then deploy/worker-role.sql made a function for it."""
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT NOT has_column_privilege('benchmarks_workerkey', 'public_key', 'UPDATE')")
        return bool(cursor.fetchone()[0])


def _through_the_door(key: WorkerKey, token: str) -> bool:
    """The same, by a function that does it only for who knows the one-time key."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT headroom_enrol(%s, %s, %s)", [token, key.worker, key.public_key])
        return bool(cursor.fetchone()[0])


def _used_up(key: WorkerKey, at: datetime) -> str | None:
    if key.used_at is not None:
        return f"{key} was used already, on {key.used_at:%Y-%m-%d %H:%M} UTC. Make a new one on the host's page."
    if key.revoked_at is not None:
        return f"{key} was revoked. Make a new one on the host's page."
    if at >= key.expires_at:
        return f"{key} ended at {key.expires_at:%Y-%m-%d %H:%M} UTC. Make a new one on the host's page."
    return None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _tell(actor: str, verb: str, key: WorkerKey, changes: dict[str, str]) -> None:
    audit.record(
        actor=actor, verb=verb, subject=f"hardware {key.hardware.slug}", team=key.hardware.team, changes=dict(changes)
    )
