"""manage.py make_keys: a key set that signs statements, as files of mode 600 under HEADROOM_KEYS."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from capacity.statement.keys import KeyFileError, make_keyset, root_fingerprint


class Command(BaseCommand):
    help = "Makes a key set (Ed25519 for the JSON, ECDSA P-256 for the PDF) and adds its public half to keyring.json."
    requires_system_checks = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--demonstration", action="store_true", help="a key set that may sign demonstrations only")
        parser.add_argument("--name", help="what statements call the key, for example lhr-2026-1")
        parser.add_argument("--folder", type=Path, help="where key sets are kept, if not in HEADROOM_KEYS")

    def handle(self, *_args: Any, **options: Any) -> None:
        name = options["name"] or ("demonstration" if options["demonstration"] else "")
        folder = options["folder"] or settings.KEYS_DIR
        if not name:
            raise CommandError("A real key set needs a name: --name lhr-2026-1", returncode=2)
        try:
            entry = make_keyset(folder, name=name, demonstration=options["demonstration"], now=datetime.now(UTC))
        except (KeyFileError, OSError) as error:
            raise CommandError(str(error), returncode=2) from error
        self.stdout.write(f"Key set {name} in {folder / name}, key id {entry.keyid}")
        self.stdout.write(f"Root certificate sha256 {root_fingerprint(entry)}")
        self.stdout.write(f"Give verifiers {folder / 'keyring.json'}. Move root-key.pem to a place that is offline.")
