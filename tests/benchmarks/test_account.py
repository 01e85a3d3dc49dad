"""manage.py account: real people with roles, and an event of each change."""

from io import StringIO

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from benchmarks import audit
from benchmarks.management.commands import account
from benchmarks.models import Event, Membership, Team

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("account", *arguments, stdout=out)
    return out.getvalue()


def roles(name: str) -> list[tuple[str, str]]:
    return sorted(Membership.objects.filter(user__username=name).values_list("team__slug", "role"))


def verbs() -> list[tuple[str, str]]:
    return [(e.verb, e.subject) for e in Event.objects.filter(sequence__gt=1).order_by("sequence")]


def test_a_new_account_gets_its_team_its_roles_and_a_password_that_is_shown_once() -> None:
    said = run("hina", "--team", "karachi", "--role", "host_owner", "approver", "--full-name", "Hina Qureshi")
    password = said.rpartition("shown once: ")[2].strip()
    assert roles("hina") == [("karachi", "approver"), ("karachi", "host_owner")]
    user = authenticate(username="hina", password=password)
    assert isinstance(user, User)
    assert user.get_full_name() == "Hina Qureshi"
    assert verbs() == [
        ("made team", "team karachi"), ("created account", "user hina"), ("gave role", "user hina"),
        ("gave role", "user hina"),
    ]  # fmt: skip
    assert password not in "".join(str(e.changes) + e.reason for e in Event.objects.all())
    assert audit.broken_links() == []
    assert "shown once" not in run("hina", "--team", "karachi", "--role", "viewer")


def test_roles_are_taken_away_and_what_was_not_held_changes_nothing() -> None:
    run("ali", "--team", "karachi", "--role", "operator", "viewer")
    assert run("ali", "--team", "karachi", "--remove-role", "operator") == "ali in karachi: viewer\n"
    assert verbs()[-1] == ("took role", "user ali")
    with pytest.raises(CommandError, match="is not operator in karachi"):
        run("ali", "--team", "karachi", "--role", "signer", "--remove-role", "operator")
    assert roles("ali") == [("karachi", "viewer")]


def test_an_account_may_be_in_two_teams_and_only_an_asked_for_password_changes() -> None:
    run("ali", "--team", "karachi", "--role", "operator")
    before = User.objects.get(username="ali").password
    run("ali", "--team", "lahore", "--role", "signer")
    assert User.objects.get(username="ali").password == before
    assert "shown once" in run("ali", "--team", "lahore", "--new-password")
    assert User.objects.get(username="ali").password != before
    assert roles("ali") == [("karachi", "operator"), ("lahore", "signer")]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["ali", "--team", "karachi"], "no account ali"),
        (["ali", "--team", "karachi", "--role", "superuser"], "invalid choice"),
        (["ali", "--team", "two words", "--role", "viewer"], "valid “slug”"),
        (["a li", "--team", "karachi", "--role", "viewer"], "valid username"),
        (["ali", "--team", "karachi", "--role", "viewer", "--remove-role", "viewer"], "not both"),
    ],
)
def test_what_cannot_be_is_refused_in_words_and_makes_nothing(arguments: list[str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        run(*arguments)
    assert (User.objects.count(), Team.objects.count(), verbs()) == (0, 0, [])


@pytest.mark.parametrize(
    "typed, refused",
    [
        (["a long enough one", "a long enough one"], None),
        (["a long enough one", "another"], "not the same"),
        (["short", "short"], "too short"),
        ([""], None),
    ],
)
def test_at_a_terminal_the_password_is_asked_twice(
    monkeypatch: pytest.MonkeyPatch, typed: list[str], refused: str | None
) -> None:
    """The terminal is the seam: what a person would type is given to getpass."""
    answers = iter(typed)
    monkeypatch.setattr(account.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(account.getpass, "getpass", lambda _prompt: next(answers))
    if refused:
        with pytest.raises(CommandError, match=refused):
            run("ali", "--team", "karachi", "--role", "viewer")
        assert User.objects.count() == 0
        return
    said = run("ali", "--team", "karachi", "--role", "viewer")
    assert ("shown once" in said) is (typed[0] == "")
    assert typed[0] == "" or authenticate(username="ali", password=typed[0]) is not None
