"""Start-up checks: what would make a server unsafe, or leave grids waiting for ever, each with a hint what to do.

`manage.py check` runs the first part, `manage.py check --deploy` the rest; `--database default` those that read rows
(benchmarks.triggers has one more: its triggers are there).
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register
from django.db import DatabaseError, connections
from django.utils import timezone

from benchmarks.models import Hardware

LOOPBACK = {"127.0.0.1", "localhost", "[::1]", "::1", "testserver"}
SEEN_WITHIN = timedelta(minutes=10)


def _open_to_others(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


@register(Tags.security)
def check_secret_files(**_: Any) -> list[CheckMessage]:
    """Files that hold secrets are for their owner only."""
    keys = Path(settings.KEYS_DIR)
    # keyring.json and what ends in .pub.pem or holds certificates is public; the private halves are these.
    private = [*keys.glob("*/ed25519.pem"), *keys.glob("*/*-key.pem")]
    found: list[CheckMessage] = []
    for path in [settings.VAR / "secret-key", settings.VAR / "demo-accounts.txt", *sorted(private)]:
        if _open_to_others(path):
            found.append(
                Error(f"Others on this machine can read {path}.", hint=f"chmod 600 {path}", id="capacity.E001")
            )
    return found


@register(Tags.security)
def check_hosts(**_: Any) -> list[CheckMessage]:
    """A server that others can reach must stand behind TLS, without DEBUG, and have a secret of its own."""
    if set(settings.ALLOWED_HOSTS) <= LOOPBACK:
        return []
    found: list[CheckMessage] = []
    if settings.DEBUG:
        hint = "Unset DEBUG: its error pages show settings and code to everybody."
        found.append(Error("DEBUG is on and ALLOWED_HOSTS lets others in.", hint=hint, id="capacity.E002"))
    if not settings.BEHIND_TLS:
        hint = "Put a TLS proxy in front that sets X-Forwarded-Proto, then set BEHIND_TLS=1."
        found.append(Error("Passwords would travel in the clear.", hint=hint, id="capacity.E003"))
    return found


@register(Tags.security, deploy=True)
def check_production(**_: Any) -> list[CheckMessage]:
    """What the embedded default may do for one machine and a server for many may not."""
    found: list[CheckMessage] = []
    kept = settings.VAR / "secret-key"
    if kept.exists() and kept.read_text().strip() == settings.SECRET_KEY:
        hint = "Set SECRET_KEY_FILE to a file that every web server and worker shares, or SECRET_KEY."
        found.append(Warning("SECRET_KEY is the one generated for this folder.", hint=hint, id="capacity.W010"))
    if set(settings.ALLOWED_HOSTS) <= LOOPBACK or "*" in settings.ALLOWED_HOSTS:
        hint = "Set ALLOWED_HOSTS to the names people type, such as headroom.example.org."
        found.append(Warning("ALLOWED_HOSTS names no host of its own.", hint=hint, id="capacity.W011"))
    if settings.BASE_URL.startswith("http://"):
        hint = "Set BASE_URL to the https address: statements print it, with a QR code to verify them."
        found.append(Warning(f"BASE_URL is {settings.BASE_URL}.", hint=hint, id="capacity.W012"))
    if not settings.DATABASE_URL or not settings.BROKER_URL:
        hint = "Set DATABASE_URL=postgres://… and BROKER_URL=redis://…: files serve one machine only."
        found.append(Warning("The embedded database or broker is in use.", hint=hint, id="capacity.W013"))
    return found


@register(Tags.database)
def check_workers(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """A host whose worker is silent has grids that wait; SQLite cannot be shared between hosts."""
    if not databases or "default" not in databases or not _migrated():
        return []
    hosts = list(Hardware.objects.values_list("slug", "worker_name", "worker_seen_at"))
    found: list[CheckMessage] = []
    long_ago = timezone.now() - SEEN_WITHIN
    silent = [slug for slug, _name, seen in hosts if seen is None or seen < long_ago]
    if silent:
        hint = "Start one there: `manage.py worker --hardware SLUG`, or deploy/headroom-worker@.service."
        found.append(
            Info(f"No worker was seen in ten minutes for: {', '.join(silent)}.", hint=hint, id="capacity.I030")
        )
    machines = {name.rpartition("@")[2] for _slug, name, _seen in hosts if name}
    if connections["default"].vendor == "sqlite" and len(machines) > 1:
        hint = "Set DATABASE_URL=postgres://…: SQLite on a shared folder loses writes."
        found.append(Error("Workers of several machines use one SQLite file.", hint=hint, id="capacity.E031"))
    return found


def _migrated() -> bool:
    """Before the first `migrate` there is nothing to look at."""
    try:
        return Hardware._meta.db_table in connections["default"].introspection.table_names()
    except DatabaseError:
        return False
