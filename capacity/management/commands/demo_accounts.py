"""`manage.py demo_accounts`: six accounts, one per role, for trying Headroom on one machine."""

from __future__ import annotations

import secrets
from argparse import ArgumentParser

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from benchmarks import audit
from benchmarks.models import Membership, Role, Team
from capacity.management.accounts import read_passwords, write_passwords

NAMES = {role: role.value.replace("_", "-") for role in Role}


class Command(BaseCommand):
    help = "Creates the demonstration accounts that do not exist yet, with generated passwords in a file of mode 600."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--new-passwords", action="store_true", help="Give every demonstration account a new password."
        )

    def handle(self, *_args: object, new_passwords: bool, **_options: object) -> None:
        if settings.BEHIND_TLS:
            raise CommandError(
                "BEHIND_TLS is set, so others can reach this server: demonstration accounts do not belong here."
            )
        path = settings.VAR / "demo-accounts.txt"
        passwords = read_passwords(path)
        made = self._create(passwords, renew=new_passwords)
        if not made:
            self.stdout.write(f"The demonstration accounts exist; their passwords are in {path}.")
            return
        write_passwords(path, passwords)
        self.stdout.write(f"Demonstration accounts (shown once; kept in {path}, which only you can read):")
        for name in made:
            self.stdout.write(f"  {name:<14} {passwords[name]}")

    def _create(self, passwords: dict[str, str], *, renew: bool) -> list[str]:
        """Makes missing accounts and memberships, puts new passwords into `passwords`; the usernames that got one."""
        changed = []
        with transaction.atomic():
            team, _ = Team.objects.get_or_create(slug="demonstration", defaults={"name": "Demonstration"})
            for role, name in NAMES.items():
                user, new = User.objects.get_or_create(username=name)
                Membership.objects.get_or_create(user=user, team=team, role=role)
                if not new and not renew:
                    continue
                passwords[name] = secrets.token_urlsafe(12)
                user.set_password(passwords[name])
                user.save(update_fields=["password"])
                verb = "created account" if new else "gave a new password to"
                audit.record(actor="demo_accounts", verb=verb, subject=f"user {name}", team=team, after=role)
                changed.append(name)
        return changed
