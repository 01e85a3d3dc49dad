"""Approvals and statements as pages: what waits for whom, what each rests on, and what a stranger learns of a statement."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from benchmarks.access import person_of
from benchmarks.models import Role
from benchmarks.records.claims import INSTEAD
from capacity import approvals
from capacity.decision_tables import replaced_by, waiting
from capacity.models import Choice, Statement
from capacity.statement.keys import KEYRING, load_keyring, make_keyset
from capacity.statement.verify import verify
from tests.capacity.stored import measure
from tests.capacity.test_approvals import Office
from tests.capacity.test_overview import again
from tests.factories import PASSWORD, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def keys(settings: object, tmp_path: Path) -> Path:
    settings.KEYS_DIR = tmp_path  # type: ignore[attr-defined]
    make_keyset(tmp_path, name="demonstration", demonstration=True, now=datetime.now(UTC))
    return tmp_path


def page(user: User | None, path: str, *, status: int = 200) -> str:
    client = Client()
    if user is not None:
        client.force_login(user)
    answer = client.get(path)
    assert answer.status_code == status
    return answer.content.decode()


def stated(office: Office, *, days: int = 90) -> Statement:
    choice = office.approved()
    return approvals.issue_statement(choice=choice, by=office.signer, title="Chat", valid_days=days)


def waits(office: Office, user: User) -> list[tuple[str, str, bool]]:
    who = person_of(user)
    assert who is not None
    return [(row.what, row.whom, row.yours) for row in waiting(who)]


def test_a_proposal_waits_for_approvers_who_neither_ran_nor_proposed_it() -> None:
    office = Office()
    make_user(office.team, Role.APPROVER, username="sana")
    office.proposed()
    assert waits(office, office.approver) == [("Decision", "you or sana", True)]
    assert waits(office, office.operator) == [("Decision", "approver or sana", False)]


def test_where_nobody_may_decide_the_page_says_what_to_do_about_it() -> None:
    office = Office()
    office.proposed()
    office.approver.memberships.all().delete()
    ((_, whom, yours),) = waits(office, office.operator)
    assert whom.startswith("nobody: no approver of the team neither ran nor proposed it.")
    assert not yours


def test_an_approval_waits_for_a_signer_until_it_is_stated(keys: Path) -> None:
    office = Office()
    choice = office.approved()
    assert waits(office, office.signer) == [("Statement", "you", True)]
    approvals.issue_statement(choice=choice, by=office.signer, title="Chat", valid_days=30)
    assert waits(office, office.signer) == []
    assert "Nothing waits for a decision or for a statement." in page(office.signer, "/approvals/")


def test_the_list_has_the_next_step_what_stands_and_everything() -> None:
    office = Office()
    office.proposed()
    html = page(office.approver, "/approvals/")
    assert "Review and decide<" in html
    assert "Everything that was proposed" in html
    assert 'id="h-approved"' not in html


@pytest.mark.parametrize("choices", [1, 3])
def test_the_list_asks_the_database_as_often_for_three_as_for_one(choices: int) -> None:
    office = Office()
    office.proposed()
    for _ in range(choices - 1):
        office.grid = measure(again(office))
        office.proposed()
    client = Client()
    client.force_login(office.approver)
    with CaptureQueriesContext(connection) as queries:
        assert client.get("/approvals/").status_code == 200
    assert len(queries) == 12


def test_the_page_of_a_choice_names_what_ends_it_early_and_what_measuring_again_costs() -> None:
    office = Office()
    choice = office.proposed()
    html = page(office.approver, choice.get_absolute_url())
    panel = html[html.index('id="h-rests"') :].partition("</section>")[0]
    for name in ("Runtime", "Model", "Workload", "CPU", "Power source"):
        assert f"<dt>{name}</dt>" in panel
    assert "A re-test is 12 cells" in panel
    assert "An approval ends early if anything that it rests on changes" in html


def test_a_choice_is_sent_back_with_what_must_change() -> None:
    office = Office()
    choice = office.proposed()
    client = Client()
    client.force_login(office.approver)
    told = {"decision": "reject", "reason": "Measure it in the evening.", "password": PASSWORD}
    assert client.post(reverse("choice-decide", args=[choice.pk]), told).status_code == 302
    choice.refresh_from_db()
    assert (choice.status, choice.decision_reason) == (Choice.Status.REJECTED, "Measure it in the evening.")


def test_a_withdrawal_that_claims_users_is_refused_with_the_sentence_to_use() -> None:
    office = Office()
    choice = office.proposed()
    client = Client()
    client.force_login(office.operator)
    answer = client.post(reverse("choice-withdraw", args=[choice.pk]), {"reason": "Supports 8 users"}, follow=True)
    assert INSTEAD in answer.content.decode().replace("&#x27;", "'")
    choice.refresh_from_db()
    assert choice.status == Choice.Status.PROPOSED


def test_a_newer_statement_about_the_same_service_is_named_on_both_pages_of_the_older(keys: Path) -> None:
    office = Office()
    first = stated(office)
    later = again(office)
    office.authorize(later, office.owner)
    office.grid = measure(later)
    second = stated(office)
    assert (replaced_by(first), replaced_by(second)) == (second, None)
    assert "Genuine, and replaced" in page(office.operator, first.get_absolute_url())
    assert f">{first.number}</a>" in page(office.operator, second.get_absolute_url())
    public = page(None, reverse("verify-statement", args=[first.number, first.digest[:12]]))
    assert "A newer statement was issued." in public
    assert reverse("verify-statement", args=[second.number, second.digest[:12]]) in public


def test_a_demonstration_replaces_nothing_that_a_real_key_signed(keys: Path) -> None:
    office = Office()
    first = stated(office)
    later = again(office)
    office.authorize(later, office.owner)
    office.grid = measure(later)
    stated(office)
    assert replaced_by(Statement(pk=first.pk, choice=first.choice, demonstration=False)) is None


def test_the_public_page_needs_no_account_and_names_nothing_internal(keys: Path) -> None:
    office = Office()
    statement = stated(office)
    html = page(None, reverse("verify-statement", args=[statement.number, statement.digest[:12]]))
    assert html.index("This statement is genuine and in force") < html.index("Says")
    for internal in (office.runtime.endpoint, office.grid.name, "/grids/", "/approvals/", "/hosts/"):
        assert internal not in html


def test_the_public_keys_that_the_page_hands_out_verify_a_statement_offline(keys: Path) -> None:
    envelope = bytes(stated(Office()).envelope)
    assert f'href="{reverse("verify-keyring")}"' in page(None, reverse("verify"))
    answer = Client().get(reverse("verify-keyring"))
    assert 'filename="keyring.json"' in answer["Content-Disposition"]
    assert b"PRIVATE" not in answer.content
    (keys / "copy").mkdir()
    (keys / "copy" / KEYRING).write_bytes(answer.content)
    assert verify(envelope, load_keyring(keys / "copy"), timezone.now()).state == "valid"


def upload(content: bytes) -> str:
    answer = Client().post(reverse("verify"), {"file": SimpleUploadedFile("s.json", content)})
    assert answer.status_code == 200
    return answer.content.decode()


def test_each_verdict_on_a_file_says_what_to_do_about_it(keys: Path) -> None:
    office = Office()
    statement = stated(office)
    envelope = bytes(statement.envelope)
    assert "This statement is genuine and in force" in upload(envelope)
    changed = json.loads(envelope)
    changed["payload"] = ("A" if changed["payload"][0] != "A" else "B") + changed["payload"][1:]
    html = upload(json.dumps(changed).encode())
    assert "This is not a genuine statement" in html
    assert "Do not rely on this file." in html
    (keys / KEYRING).unlink()
    unknown = upload(envelope)
    assert "The signer of this statement is not known" in unknown
    assert "That is no proof of forgery" in unknown


def test_an_expired_statement_is_said_to_be_genuine_and_over(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office()
    statement = stated(office, days=1)
    later = statement.valid_until + timedelta(hours=1)
    monkeypatch.setattr("django.utils.timezone.now", lambda: later)
    html = upload(bytes(statement.envelope))
    assert "This statement is genuine and has expired" in html
    assert "Nothing in force says that it still is." in html
