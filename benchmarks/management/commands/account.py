"""manage.py account: makes or changes one person's account, its team and its roles; each change is an audit event."""

from __future__ import annotations

import getpass
import secrets
import sys
from argparse import ArgumentParser

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_slug
from django.db import transaction

from benchmarks import audit
from benchmarks.models import Membership, Role, Team


class Command(BaseCommand):
    help = (
        "Makes an account, or gives and takes roles of one. A new account's password is asked, or made and shown once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="user name")
        parser.add_argument("--team", required=True, help="slug of the team; a team that does not exist is made")
        parser.add_argument("--team-name", default="", help="name of a new team, as it stands on pages")
        parser.add_argument("--role", nargs="+", default=[], choices=Role.values, help="roles to give in this team")
        parser.add_argument("--remove-role", nargs="+", default=[], choices=Role.values, help="roles to take away")
        parser.add_argument("--full-name", default="", help="first and last name, as statements print it")
        parser.add_argument("--new-password", action="store_true", help="replace the password of an existing account")

    def handle(
        self,
        *_args: object,
        name: str,
        team: str,
        team_name: str,
        role: list[str],
        remove_role: list[str],
        full_name: str,
        new_password: bool,
        **_options: object,
    ) -> None:
        if both := sorted(set(role) & set(remove_role)):
            raise CommandError(f"Give or take away {', '.join(both)}, not both.")
        self._check(name, team)
        known = User.objects.filter(username=name).exists()
        if not known and not role:
            raise CommandError(f"There is no account {name}. To make it, give it a role: --role {Role.VIEWER.value}")
        password, shown = _password(name) if new_password or not known else (None, False)
        with transaction.atomic():
            row, made = Team.objects.get_or_create(slug=team, defaults={"name": team_name or team})
            if made:
                _record("made team", f"team {team}", row)
            user = self._user(name, row, full_name, password)
            self._roles(user, row, role, remove_role)
        held = ", ".join(sorted(user.memberships.filter(team=row).values_list("role", flat=True))) or "no role"
        self.stdout.write(f"{name} in {row.slug}: {held}")
        if shown:
            self.stdout.write(f"Password, shown once: {password}")

    def _check(self, name: str, team: str) -> None:
        try:
            validate_slug(team)
            User.username_validator(name)
        except ValidationError as wrong:
            raise CommandError(" ".join(wrong.messages)) from wrong

    def _user(self, name: str, team: Team, full_name: str, password: str | None) -> User:
        user, made = User.objects.get_or_create(username=name)
        if full_name:
            user.first_name, _, user.last_name = full_name.partition(" ")
        if password is not None:
            user.set_password(password)
        user.save()
        if made:
            _record("created account", f"user {name}", team)
        elif password is not None:
            _record("gave a new password to", f"user {name}", team)
        return user

    def _roles(self, user: User, team: Team, given: list[str], taken: list[str]) -> None:
        for role in given:
            _, new = Membership.objects.get_or_create(user=user, team=team, role=role)
            if new:
                _record("gave role", f"user {user.username}", team, role)
        for role in taken:
            gone, _ = Membership.objects.filter(user=user, team=team, role=role).delete()
            if not gone:
                raise CommandError(f"{user.username} is not {role} in {team.slug}. Nothing was changed.")
            _record("took role", f"user {user.username}", team, role)


def _record(verb: str, subject: str, team: Team, role: str = "") -> None:
    # Whoever may run this command owns the machine; the account of the system is the only name there is.
    audit.record(
        actor=f"system account {getpass.getuser()}", verb=verb, subject=subject, team=team,
        changes={"role": role} if role else None,
    )  # fmt: skip


def _password(name: str) -> tuple[str, bool]:
    """The password, and whether it was made here and must be shown: asked twice at a terminal, made where there is none."""
    if not sys.stdin.isatty():
        return secrets.token_urlsafe(15), True
    first = getpass.getpass(f"Password for {name} (empty: make one): ")
    if not first:
        return secrets.token_urlsafe(15), True
    try:
        validate_password(first, User(username=name))
    except ValidationError as weak:
        raise CommandError(" ".join(weak.messages)) from weak
    if getpass.getpass("Again: ") != first:
        raise CommandError("These two are not the same. Nothing was changed.")
    return first, False
