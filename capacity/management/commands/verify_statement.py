"""manage.py verify_statement FILE: the verdict on a statement, offline and without a database."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from capacity.statement.keys import KEYRING, KeyFileError, load_keyring
from capacity.statement.verify import Verdict, as_text, verify


class Command(BaseCommand):
    help = (
        "Verifies a capacity statement, the JSON envelope or the PDF. Exit codes: 0 valid, 1 tampered, 2 file or "
        "keyring cannot be read, 3 expired, 4 unknown signer, 5 key revoked, 6 not yet valid."
    )
    requires_system_checks = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument(
            "--keyring", type=Path, help="the publisher's keyring.json; left out: this installation's own"
        )
        parser.add_argument("--json", action="store_true", help="the verdict as one JSON object")

    def handle(self, *_args: Any, **options: Any) -> None:
        keyring_path = options["keyring"] or settings.KEYS_DIR / KEYRING
        try:
            keyring, data = load_keyring(keyring_path), options["file"].read_bytes()
        except (KeyFileError, OSError) as error:
            raise CommandError(str(error), returncode=2) from error
        verdict = verify(data, keyring, datetime.now(UTC))
        self.stdout.write(_as_json(verdict) if options["json"] else as_text(verdict))
        if verdict.exit_code:
            sys.exit(verdict.exit_code)


def _as_json(verdict: Verdict) -> str:
    return msgspec.json.encode(verdict).decode()
