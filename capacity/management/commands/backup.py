"""`manage.py backup FILE`: writes the whole installation's rows to one file, or checks such a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from capacity import backups


class Command(BaseCommand):
    help = "Writes the whole installation's rows to one file, or checks such a file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="such as headroom-2026-11-30.tar")
        parser.add_argument("--check", action="store_true", help="read a backup again and say whether it is whole")

    def handle(self, *_args: Any, file: Path, check: bool, **_options: Any) -> None:
        try:
            kept = backups.check(file) if check else backups.write(file)
        except backups.BackupRefused as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{file}: whole. {sum(kept.rows.values())} rows, {kept.evidence} cells with evidence whose digests hold, "
            f"{kept.rows['benchmarks.event']} audit events in an unbroken chain; made at {kept.made_at}."
        )
        if not check:
            self.stdout.write("It holds password hashes: keep it as you keep the database. Signing keys are not in it.")
