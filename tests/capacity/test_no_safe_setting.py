"""That no setting is safe: proposed, approved by another person, stated, verified, and never shown as a number."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchmarks.engine.summary_types import CellSummary
from benchmarks.models import Cell, Grid, Role
from capacity import approvals
from capacity.assessment.verdict import Grade
from capacity.models import Choice, Statement
from capacity.queries import previous_choice, result_of
from capacity.statement import words
from capacity.statement.keys import KEYRING, load_keyring, make_keyset
from capacity.statement.verify import verify
from tests.capacity import stored
from tests.capacity import synthetic as made
from tests.capacity.test_approvals import Office, signed_in
from tests.factories import PASSWORD, make_user

pytestmark = pytest.mark.django_db

NONE_OFFERED = "No safe setting: propose this result"


def slow(cell: Cell) -> CellSummary:
    """Half as long again as the limit allows, at every setting."""
    late = made.latencies(120, 1.5 * made.LIMITS[cell.class_name])
    part = made.class_summary(cell.class_name, late)
    return made.summary(cell.setting, cell.class_name, [part], simulated=cell.grid.simulated)


def office(kind: str = "vllm") -> Office:
    """With a second grid, of which no setting is safe, after one of which some are."""
    found = Office(kind=kind)
    owner = found.grid.authorizations.get().authorized_by
    found.grid = found.drawn()
    found.authorize(found.grid, owner)
    stored.measure(found.grid, slow)
    return found


@pytest.fixture
def keys(settings: object, tmp_path: Path) -> Path:
    settings.KEYS_DIR = tmp_path  # type: ignore[attr-defined]
    make_keyset(tmp_path, name="demonstration", demonstration=True, now=datetime.now(UTC))
    make_keyset(tmp_path, name="lhr-1", demonstration=False, now=datetime.now(UTC))
    return tmp_path


def text(client: Client, address: str, *, status: int = 200) -> str:
    """What a person reads there; the word None stands on no page."""
    answer = client.get(address)
    assert answer.status_code == status, answer.content.decode()
    html = answer.content.decode()
    said = " ".join(unescape(re.sub(r"<(script|style)\b.*?</\1>|<[^>]+>", " ", html, flags=re.DOTALL)).split())
    assert not re.search(r"\bNone\b", said), re.findall(r".{60}\bNone\b.{40}", said)
    return said


def proposed(of: Office) -> Choice:
    """Through the page that offers it."""
    client = signed_in(of.operator)
    address = reverse("grid-propose", args=[of.grid.pk])
    assert address in client.get(of.grid.get_absolute_url()).content.decode()
    page = text(client, address)
    assert "No setting of this grid is safe. That is a result too" in page
    assert "over the limit" in page
    form = client.get(address).context["form"]
    assert NONE_OFFERED in client.get(address).content.decode()
    answer = client.post(address, {"result": form["result"].value(), "reason": form["reason"].value()})
    assert answer.status_code == 302, answer.content.decode()
    return Choice.objects.get(grid=of.grid)


def approved(of: Office) -> Choice:
    choice = proposed(of)
    data = {"decision": "approve", "reason": "It is so.", "password": PASSWORD}
    assert signed_in(of.approver).post(reverse("choice-decide", args=[choice.pk]), data).status_code == 302
    choice.refresh_from_db()
    return choice


def issued(of: Office) -> Statement:
    choice = approved(of)
    data = {"title": "Support on the host", "valid_days": 90, "password": PASSWORD}
    answer = signed_in(of.signer).post(reverse("statement-issue", args=[choice.pk]), data)
    assert answer.status_code == 302, answer.content.decode()
    return choice.statements.get()


@pytest.mark.parametrize(
    ("kind", "demonstration", "key"), [("vllm", False, "lhr-1"), ("simulator", True, "demonstration")]
)
def test_it_is_proposed_approved_issued_and_verified_by_the_key_that_its_kind_of_runtime_asks_for(
    keys: Path, kind: str, demonstration: bool, key: str
) -> None:
    of = office(kind)
    statement = issued(of)
    choice = statement.choice
    assert (choice.setting, choice.rollback_setting, choice.grade) == (None, None, Grade.NO_SAFE_SETTING)
    assert (statement.demonstration, statement.key.name) == (demonstration, key)
    ring = load_keyring(keys / KEYRING)
    for data in (bytes(statement.envelope), bytes(statement.pdf)):
        verdict = verify(data, ring, timezone.now())
        assert (verdict.state, verdict.digest) == ("valid", statement.digest)
        assert verify(data[:-300] + bytes([data[-300] ^ 1]) + data[-299:], ring, timezone.now()).state == "tampered"
    changed = bytes(statement.envelope).replace(b"A", b"B", 1)
    for content, heading in (
        (bytes(statement.envelope), "This statement is genuine and in force"),
        (changed, "This is not a genuine statement"),
    ):
        answer = Client().post(reverse("verify"), {"file": SimpleUploadedFile("s.json", content)})
        assert heading in answer.content.decode()


def test_the_statement_says_what_was_found_and_gives_no_number(keys: Path) -> None:
    of = office()
    document = approvals.document_of(issued(of))
    assert (document.setting.value, document.result, document.operating_limits, document.rollback) == (
        None,
        None,
        (),
        "",
    )
    assert (document.grade, document.grade_reason) == (
        "no safe setting found",
        "Each of 4 settings was tested and fails.",
    )
    assert [row.verdict for row in document.rows] == ["fails"] * 4
    assert all("p95 of short is 1.50 s, over the limit of 1.00 s" in row.reason for row in document.rows)
    assert [one.n for one in document.classes] == [480, 480, 480]
    page = words.page(document)
    assert "".join(span.text for span in page.lead) == (
        "No setting of 1, 2, 4 and 8 requests in flight was found safe for the request mix below: each was tested and failed. "
        "This statement gives no rate and no capacity."
    )
    assert page.not_users == "This is not a number of users."
    why, change, ends = page.paragraphs
    assert why.heading == "Why no setting is safe"
    assert why.paragraphs[0].startswith(
        "One request in flight: p95 of short is 1.50 s, over the limit of 1.00 s (n = 120)."
    )
    assert change.paragraphs == ("Keep fewer requests in flight, or shorten this class.",)
    assert "a later grid of the same configuration finds a safe setting" in ends.paragraphs[0]
    assert any(one.startswith("Overload refused clearly: No overload probe") for one in document.not_tested)
    assert "Open loop: " in document.not_tested[-1]
    assert [one.did for one in document.signatures][-2:] == ["Approved by", "Signed by"]


def test_no_page_shows_a_number_or_the_word_none_where_no_setting_is_stated(keys: Path) -> None:
    of = office()
    viewer = signed_in(make_user(of.team, Role.VIEWER))
    choice = proposed(of)
    assert f"No safe setting: proposed for {of.grid.name}" in text(viewer, reverse("overview"))
    approvals.decide(choice=choice, by=of.approver, approve=True, reason="It is so.")
    assert f"No safe setting: approved for {of.grid.name}" in text(viewer, reverse("overview"))
    signer = text(signed_in(of.signer), choice.get_absolute_url())
    assert "That no setting is safe is a result of its own, so it is signed with a key of this site's own" in signer
    assert f"No safe setting for {of.grid.name}" in signer
    assert "Why no setting is safe" in signer
    assert "Keep fewer requests in flight, or shorten this class." in signer
    assert "Rollback" not in signer
    statement = approvals.issue_statement(choice=choice, by=of.signer, title="One", valid_days=9)
    public = reverse("verify-statement", args=[statement.number, statement.digest[:12]])
    for address in (
        reverse("overview"),
        reverse("choice-list"),
        reverse("statement-list"),
        statement.get_absolute_url(),
        of.grid.get_absolute_url(),
        choice.get_absolute_url(),
    ):
        assert "No safe setting" in text(viewer, address)
    assert "was found safe" in text(Client(), public)
    assert "in flight is proposed" not in text(viewer, reverse("overview"))


def test_who_measured_or_proposed_it_does_not_approve_it_and_a_stranger_cannot_state_it(keys: Path) -> None:
    of = office()
    choice = proposed(of)
    of.operator.memberships.create(team=of.team, role=Role.APPROVER)
    data = {"decision": "approve", "reason": "Mine.", "password": PASSWORD}
    address = reverse("choice-decide", args=[choice.pk])
    assert signed_in(of.operator).post(address, data).status_code == 422
    assert signed_in(of.signer).post(address, data).status_code == 403
    assert signed_in(of.approver).post(address, data | {"password": "wrong"}).status_code == 422
    choice.refresh_from_db()
    assert choice.status == Choice.Status.PROPOSED
    with pytest.raises(approvals.Refused, match="Only an approved setting"):
        approvals.issue_statement(choice=choice, by=of.signer, title="One", valid_days=9)


def test_it_is_withdrawn_and_proposed_again_and_a_stated_one_is_not(keys: Path) -> None:
    of = office()
    first = approved(of)
    client = signed_in(of.operator)
    client.post(reverse("choice-withdraw", args=[first.pk]), {"reason": "Another look."})
    first.refresh_from_db()
    assert first.status == Choice.Status.WITHDRAWN
    again = approvals.propose(grid=of.grid, setting=None, reason="Still so.", by=of.operator)
    assert again.digest == first.digest
    approvals.decide(choice=again, by=of.approver, approve=True, reason="It is so.")
    approvals.issue_statement(choice=again, by=of.signer, title="One", valid_days=9)
    with pytest.raises(approvals.Refused, match="no statement rests on"):
        approvals.withdraw(choice=again, by=of.operator, reason="Second thoughts.")


def test_an_approval_is_bound_to_the_finding(keys: Path) -> None:
    of = office()
    choice = Choice.objects.create(
        grid=of.grid, objective=of.objective, setting=None, verdict={}, grade="no safe setting found", digest="0" * 64,
        reason="So.", measured_by=of.operator, proposed_by=of.operator,
    )  # fmt: skip
    with pytest.raises(approvals.Refused, match="changed since this was proposed"):
        approvals.decide(choice=choice, by=of.approver, approve=True, reason="Agreed.")


def test_where_a_setting_is_safe_or_nothing_failed_it_cannot_be_said() -> None:
    of = Office(kind="vllm")
    with pytest.raises(approvals.Refused, match="4 requests in flight can be proposed, so a safe setting was found"):
        approvals.propose(grid=of.grid, setting=None, reason="None.", by=of.operator)
    page = signed_in(of.operator).get(reverse("grid-propose", args=[of.grid.pk])).content.decode()
    assert (NONE_OFFERED in page, "Requests in flight" in page) == (False, True)
    of.grid = of.drawn()
    stored.measure(of.grid, nothing_sent, settings=[1])
    of.grid.cells.exclude(status="measured").update(status="not_run", reason="The host was needed.")
    Grid.objects.filter(pk=of.grid.pk).update(status="stopped")
    of.grid.refresh_from_db()
    assert not result_of(of.grid).verdict.recommended
    with pytest.raises(approvals.Refused, match="nothing is found yet"):
        approvals.propose(grid=of.grid, setting=None, reason="None.", by=of.operator)
    assert NONE_OFFERED not in signed_in(of.operator).get(reverse("grid-propose", args=[of.grid.pk])).content.decode()


def nothing_sent(cell: Cell) -> CellSummary:
    """A window in which nothing was sent."""
    part = made.class_summary(cell.class_name, [])
    return made.summary(cell.setting, cell.class_name, [part], simulated=cell.grid.simulated)


def test_where_the_grid_stopped_the_settings_that_did_not_run_are_named_and_the_grade_needs_revision(
    keys: Path,
) -> None:
    of = office()
    owner = of.grid.authorizations.get().authorized_by
    of.grid = of.drawn()
    of.authorize(of.grid, owner)
    stored.measure(of.grid, slow, settings=[1, 2])
    of.grid.cells.exclude(status="measured").update(status="not_run", reason="Not run: p95 over twice its limit at 2")
    Grid.objects.filter(pk=of.grid.pk).update(status="stopped")
    of.grid.refresh_from_db()
    choice = approved(of)
    assert choice.grade == Grade.NEEDS_REVISION
    statement = approvals.issue_statement(choice=choice, by=of.signer, title="One", valid_days=9)
    assert statement.demonstration
    document = approvals.document_of(statement)
    assert words.result_sentence(document).startswith("No setting of 1 and 2 requests in flight was found safe")
    assert [one for one in document.not_tested if one.startswith("4 requests in flight: ")] != []


def test_that_none_was_safe_is_no_way_back_for_a_later_grid() -> None:
    of = office()
    choice = approvals.propose(grid=of.grid, setting=None, reason="None.", by=of.operator)
    approvals.decide(choice=choice, by=of.approver, approve=True, reason="It is so.")
    later = stored.measure(of.drawn())
    assert previous_choice(later) is None
    assert result_of(later).facts.previous_setting is None


@pytest.mark.parametrize(
    "fields",
    [{"rollback_setting": 1}, {"grade": "complete"}, {"setting": 4, "grade": "no safe setting found"}],
)
def test_the_database_refuses_what_contradicts_itself(fields: dict[str, object]) -> None:
    of = office()
    whole = {
        "grid": of.grid, "objective": of.objective, "setting": None, "verdict": {}, "grade": "no safe setting found",
        "digest": "0" * 64, "reason": "So.", "measured_by": of.operator, "proposed_by": of.operator,
    }  # fmt: skip
    with (
        pytest.raises(IntegrityError, match=r"without_a_setting_no_rollback|no_safe_setting_states_none"),
        transaction.atomic(),
    ):
        Choice.objects.create(**whole | fields)
