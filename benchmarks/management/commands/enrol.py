"""`manage.py enrol`: run on the GPU host, with the one-time key that a host owner made on the host's page."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from benchmarks import enrolling, host_file, probe, signing
from benchmarks.models import Hardware
from benchmarks.records import signatures

VARIABLE = "HEADROOM_ENROL_KEY"


class Command(BaseCommand):
    help = (
        "Enrols the worker of this machine for one host. The one-time key is read from standard input, or from "
        f"{VARIABLE}: as an argument, every user of the machine could read it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--hardware", required=True, metavar="SLUG", help="short name of the host")

    def handle(self, *, hardware: str, **_options: object) -> None:
        host = Hardware.objects.select_related("team").filter(slug=hardware).first()
        if host is None:
            raise CommandError(f"There is no host {hardware}. Its short name stands on its page.")
        try:
            allowed = host_file.read()
            worker = probe.claimant_host(probe.claimant()).partition(",")[0]
            key = enrolling.enrol(hardware=host, token=_token(), worker=worker, at=timezone.now())
        except (enrolling.EnrolRefused, host_file.HostFileError) as refused:
            raise CommandError(str(refused)) from refused
        web = signatures.fingerprint(signing.pinned_web_key(host.slug))
        self.stdout.write(f"{host.name} trusts this worker now, by {key}. It acts on what web key {web[:12]} signed.")
        self.stdout.write(f"It may call {', '.join(allowed.targets) or 'nothing'}; {allowed.path} decides that.")


def _token() -> str:
    if given := os.environ.get(VARIABLE, ""):
        return given
    if sys.stdin.isatty():
        return getpass.getpass("One-time key, from the host's page (not shown): ")
    return sys.stdin.readline()
