"""manage.py verify_audit: whether the chain of audit events holds. Exit code 0 when it does, 1 when it is broken."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from benchmarks import audit
from benchmarks.models import Event


class Command(BaseCommand):
    help = "Checks every link of the audit chain. Exit code 1 when one is broken, changed or missing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--head", help="Hash that an event of the chain must have, as a statement prints it.")

    def handle(self, *_args: Any, **options: Any) -> None:
        broken = audit.broken_links()
        for link in broken:
            self.stderr.write(f"event {link.sequence} {link.what}")
        wanted = options["head"]
        unknown = bool(wanted) and not Event.objects.filter(hash=wanted).exists()
        if unknown:
            self.stderr.write(f"no event has the hash {wanted}: the chain was cut or is another one")
        if broken or unknown:
            sys.exit(1)
        self.stdout.write(f"The chain holds: {Event.objects.count()} events, head {audit.head()}")
