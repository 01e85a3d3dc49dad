"""Which key signs a grade: a waiver with its person and its last day, and what no key signs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest
from django.urls import reverse
from django.utils import timezone

from capacity import approvals
from capacity.decision_forms import IssueForm
from capacity.statement import words
from capacity.statement.keys import KEYRING, load_keyring, make_keyset
from capacity.statement.verify import verify
from tests.capacity.test_approvals import Office, signed_in
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db


@pytest.fixture
def office() -> Office:
    """With a runtime that nobody simulates."""
    return Office(kind="vllm")


@pytest.fixture
def keys(settings: object, tmp_path: Path) -> Path:
    settings.KEYS_DIR = tmp_path  # type: ignore[attr-defined]
    make_keyset(tmp_path, name="demonstration", demonstration=True, now=datetime.now(UTC))
    return tmp_path


def real_key(folder: Path) -> None:
    make_keyset(folder, name="lhr-1", demonstration=False, now=datetime.now(UTC))


def test_without_a_waiver_a_result_that_needs_revision_is_a_demonstration_whatever_keys_there_are(
    office: Office, keys: Path
) -> None:
    real_key(keys)
    choice = office.approved()
    page = signed_in(office.signer).get(choice.get_absolute_url()).content.decode()
    assert "signed with a demonstration key" in page
    assert choice.verdict["next_cell"] in unescape(page)
    assert approvals.issue_statement(choice=choice, by=office.signer, title="One", valid_days=90).demonstration


def test_a_waiver_lets_a_real_key_sign_until_it_ends_and_is_printed(office: Office, keys: Path) -> None:
    real_key(keys)
    choice, last = office.approved(), timezone.localdate() + timedelta(days=30)
    form = {
        "title": "One", "valid_days": "90", "password": PASSWORD, "waiver": "A pilot of four desks.", "waived_until": str(last),
    }  # fmt: skip
    answer = signed_in(office.signer).post(reverse("statement-issue", args=[choice.pk]), form)
    assert answer.status_code == 302, answer.content.decode()
    statement = choice.statements.get()
    assert (statement.demonstration, statement.key.name) == (False, "lhr-1")
    assert timezone.localtime(statement.valid_until).date() == last + timedelta(days=1)
    (notice,) = words.page(approvals.document_of(statement)).notices
    assert notice.startswith(f"Waiver: until {last:%d %b %Y} {office.signer.get_username()} answers for what is open (")
    assert "Confirmed in an open loop" in notice
    assert notice.endswith("A pilot of four desks.")
    verdict = verify(bytes(statement.envelope), load_keyring(keys / KEYRING), timezone.now())
    assert verdict.state == "valid"


@pytest.mark.parametrize(
    ("who", "days", "why"), [("operator", 9, "another person waives"), ("signer", 0, "still to come")]
)
def test_a_waiver_is_a_second_persons_and_ends(office: Office, keys: Path, who: str, days: int, why: str) -> None:
    real_key(keys)
    given = approvals.Waiver(text="It is small.", until=timezone.localdate() + timedelta(days=days))
    with pytest.raises(approvals.Refused, match=why):
        approvals.issue_statement(
            choice=office.approved(), by=getattr(office, who), title="One", valid_days=9, waiver=given
        )


def test_a_waiver_without_a_last_day_is_none_and_one_needs_a_key_of_the_sites_own(office: Office, keys: Path) -> None:
    form = IssueForm({"title": "One", "valid_days": "9", "password": "x", "waiver": "It is small."})
    assert not form.is_valid()
    assert "a reason and a last day" in form.errors["waiver"][0]
    given = approvals.Waiver(text="It is small.", until=timezone.localdate() + timedelta(days=9))
    with pytest.raises(approvals.Refused, match="no signing key"):
        approvals.issue_statement(choice=office.approved(), by=office.signer, title="One", valid_days=9, waiver=given)


def test_a_result_that_is_not_complete_is_signed_with_no_key_and_says_what_to_run(keys: Path) -> None:
    office = Office(kind="vllm", set_at=timezone.now())
    choice = office.approved()
    assert choice.grade == "not complete"
    with pytest.raises(approvals.Refused, match=r"no key signs that.*Draw the grid again"):
        approvals.issue_statement(choice=choice, by=office.signer, title="One", valid_days=9)
    page = signed_in(office.signer).get(choice.get_absolute_url()).content.decode()
    assert "no key signs that" in page
    assert reverse("statement-issue", args=[choice.pk]) not in page
