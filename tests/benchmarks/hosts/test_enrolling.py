"""Enrolment: a one-time key works once, for one host, for a day; the newest worker that used one is the only one trusted."""

from __future__ import annotations

import io
import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from benchmarks import enrolling, signing
from benchmarks.enrolling import EnrolRefused
from benchmarks.models import Event, Hardware, WorkerKey
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings) -> Path:
    """A worker elsewhere: it shares neither folder nor database file with the web, whose key lies in a folder apart."""
    web = tmp_path / "web"
    web.mkdir()
    settings.VAR, settings.WEB_KEY_FILE = tmp_path / "worker", web / "web-key"
    settings.HOST_FILE, settings.DATABASE_URL = tmp_path / "worker.toml", "postgres://elsewhere"
    return tmp_path


@pytest.fixture
def host() -> Hardware:
    return factories.make_hardware()


def owner(host: Hardware):
    return factories.make_user(host.team, "host_owner")


def test_a_used_key_makes_a_worker_trusted_and_pins_the_web(host: Hardware, home: Path) -> None:
    key, token = enrolling.make_key(hardware=host, by=owner(host))
    assert enrolling.refusal(host)
    enrolling.enrol(hardware=host, token=token + "\n", worker="gpu-1", at=timezone.now())
    kept = signing.enrolled(host.slug)
    assert kept
    assert (kept.number, kept.hardware, kept.web_key) == (key.pk, host.slug, signing.web_public_key())
    key.refresh_from_db()
    assert (key.public_key, key.worker, enrolling.refusal(host)) == (kept.public_key, "gpu-1", None)


def test_private_halves_are_files_for_their_owner_only_and_stand_in_no_row(host: Hardware, home: Path) -> None:
    _, token = enrolling.make_key(hardware=host, by=owner(host))
    enrolling.enrol(hardware=host, token=token, worker="gpu-1", at=timezone.now())
    kept = signing.enrolled(host.slug)
    assert kept
    files = [home / "web" / "web-key", home / "worker" / "enrolled" / f"{host.slug}.json"]
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600, 0o600]
    secrets = [kept.private_key, files[0].read_text(), token, token.split(".")[1]]
    rows = str(list(WorkerKey.objects.values())) + str(list(Event.objects.values()))
    assert [secret for secret in secrets if secret in rows] == []


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("used", "was used already"),
        ("ended", "ended at"),
        ("revoked", "was revoked"),
        ("replaced", "was revoked"),
        ("cut", "is not a one-time key of"),
        ("of another host", "is not a one-time key of"),
        ("with another web's key", "is not a one-time key of"),
    ],
)
def test_a_key_that_does_not_hold_enrols_nobody(host: Hardware, home: Path, what: str, words: str) -> None:
    by, now = owner(host), timezone.now()
    key, token = enrolling.make_key(hardware=host, by=by)
    if what == "used":
        enrolling.enrol(hardware=host, token=token, worker="first", at=now)
    elif what == "ended":
        now += timedelta(hours=24, seconds=1)
    elif what == "revoked":
        enrolling.revoke_key(key=key, by=by)
    elif what == "replaced":
        enrolling.make_key(hardware=host, by=by)
    elif what == "cut":
        token = token[:-1]
    elif what == "of another host":
        _, token = enrolling.make_key(hardware=factories.make_hardware(host.team), by=by)
    else:
        token = f"{token.rpartition('.')[0]}.{'A' * 43}="
    before = enrolling.live_key(host.pk)
    with pytest.raises(EnrolRefused, match=words):
        enrolling.enrol(hardware=host, token=token, worker="second", at=now)
    assert enrolling.live_key(host.pk) == before


def test_a_key_holds_to_its_last_second(host: Hardware) -> None:
    key, token = enrolling.make_key(hardware=host, by=owner(host))
    last = key.expires_at - timedelta(seconds=1)
    assert enrolling.enrol(hardware=host, token=token, worker="w", at=last).used_at == last


def test_a_new_enrolment_replaces_the_old_key_when_it_is_used_and_not_before(host: Hardware, home: Path) -> None:
    by = owner(host)
    _, first = enrolling.make_key(hardware=host, by=by)
    old = enrolling.enrol(hardware=host, token=first, worker="w", at=timezone.now())
    _, second = enrolling.make_key(hardware=host, by=by)
    assert enrolling.live_key(host.pk) == old
    new = enrolling.enrol(hardware=host, token=second, worker="w", at=timezone.now())
    old.refresh_from_db()
    assert (enrolling.live_key(host.pk), old.revoked_at is None) == (new, False)


def test_a_key_is_revoked_once(host: Hardware) -> None:
    by = owner(host)
    key, _ = enrolling.make_key(hardware=host, by=by)
    enrolling.revoke_key(key=key, by=by)
    with pytest.raises(EnrolRefused, match="was revoked already"):
        enrolling.revoke_key(key=key, by=by)


@pytest.mark.parametrize(
    ("embedded", "reads_the_key", "by_itself"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_only_a_worker_that_is_the_webs_equal_enrols_itself(
    host, home, settings, embedded, reads_the_key, by_itself
) -> None:
    settings.DATABASE_URL = "" if embedded else "postgres://elsewhere"
    if reads_the_key:
        signing.web_public_key()
    enrolling.enrol_beside_the_web(host, worker="w", at=timezone.now())
    assert (enrolling.refusal(host) is None) is by_itself
    told = Event.objects.filter(verb="enrolled itself on", subject=f"hardware {host.slug}").count()
    assert told == int(by_itself)


def test_it_never_enrols_itself_where_somebody_was_enrolled_before(host: Hardware, home: Path) -> None:
    by = owner(host)
    _, token = enrolling.make_key(hardware=host, by=by)
    key = enrolling.enrol(hardware=host, token=token, worker="w", at=timezone.now())
    enrolling.revoke_key(key=key, by=by)
    enrolling.enrol_beside_the_web(host, worker="w", at=timezone.now())
    assert (enrolling.live_key(host.pk), "was revoked" in str(enrolling.refusal(host))) == (None, True)


# --- the command and the pages ----------------------------------------------------------------------------------------


def test_the_command_reads_the_key_from_the_environment_or_standard_input(
    host: Hardware, monkeypatch, home: Path
) -> None:
    by = owner(host)
    for give in ("environment", "standard input"):
        key, token = enrolling.make_key(hardware=host, by=by)
        monkeypatch.delenv("HEADROOM_ENROL_KEY", raising=False)
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{token}\n" if give == "standard input" else ""))
        if give == "environment":
            monkeypatch.setenv("HEADROOM_ENROL_KEY", token)
        said = io.StringIO()
        call_command("enrol", hardware=host.slug, stdout=said)
        assert said.getvalue().startswith(f"{host.name} trusts this worker now, by {key}.")
        assert "It may call 127.0.0.1" in said.getvalue()
    os.environ.pop("HEADROOM_ENROL_KEY", None)


def test_the_command_refuses_in_words(host: Hardware, monkeypatch, home: Path, settings) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("x\n"))
    with pytest.raises(CommandError, match="There is no host elsewhere"):
        call_command("enrol", hardware="elsewhere")
    with pytest.raises(CommandError, match="is not a one-time key of"):
        call_command("enrol", hardware=host.slug)
    settings.HOST_FILE.write_text("target = 1")
    with pytest.raises(CommandError, match="unknown field"):
        call_command("enrol", hardware=host.slug)


def test_the_page_shows_the_key_once_and_only_to_a_host_owner_who_types_the_password(
    host: Hardware, client, home
) -> None:
    address = f"/hosts/{host.slug}/enrol/"
    client.force_login(owner(host))
    assert b"headroom-enrol." not in client.get(address).content
    assert client.post(address, {"password": "wrong"}).status_code == 422
    assert WorkerKey.objects.count() == 0
    answer = client.post(address, {"password": factories.PASSWORD})
    token = answer.content.decode().partition('id="one-time-key">')[2].partition("<")[0]
    assert "no-store" in answer["Cache-Control"]
    assert enrolling.enrol(hardware=host, token=token, worker="w", at=timezone.now()).hardware == host
    assert token.split(".")[1] not in client.get(host.get_absolute_url()).content.decode()


def test_the_page_of_a_host_says_who_is_trusted_and_takes_it_back(host: Hardware, client, home) -> None:
    by = owner(host)
    client.force_login(by)
    assert "No worker enrolled" in client.get(host.get_absolute_url()).content.decode()
    _, token = enrolling.make_key(hardware=host, by=by)
    key = enrolling.enrol(hardware=host, token=token, worker="gpu-1", at=timezone.now())
    page = client.get(host.get_absolute_url()).content.decode()
    assert ("Worker enrolled" in page, f"Revoke {key}" in page) == (True, True)
    assert client.post(f"/hosts/{host.slug}/keys/{key.pk}/revoke/").status_code == 302
    assert enrolling.live_key(host.pk) is None
    other = factories.make_hardware()
    assert client.post(f"/hosts/{other.slug}/keys/{key.pk}/revoke/").status_code == 404
