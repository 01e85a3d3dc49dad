"""A statement that contradicts itself cannot be built."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from capacity.statement.document import (
    Claim,
    Control,
    Document,
    EvidenceCell,
    Fact,
    Finding,
    NoSafeSetting,
    Rate,
    Tail,
    manifest_digest,
)
from tests.capacity.statement.documents import ISSUED, NONE_SAFE, confirmed, document, evidence, rows

IMPOSSIBLE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("A statement number looks like", {"number": "14"}),
    ("valid for at most 180 days", {"valid_until": ISSUED + timedelta(days=180, seconds=1)}),
    ("valid forward in time", {"valid_until": ISSUED}),
    ("Every time carries its offset", {"issued_at": ISSUED.replace(tzinfo=None)}),
    ("A simulated result is a demonstration", {"simulated": True, "demonstration": False}),
    ("not a number of users", {"title": "Support chat for 200 users"}),
    ("not a number of users", {"not_tested": ("More than the 8 users it supports.",)}),
    ("not a number of users", {"waiver": "Good enough for 30 people"}),
    ("not a number of users", {"conditions": replace(document().conditions, place="Hall, serves 200 users")}),
    (
        "not a number of users",
        {"conditions": replace(document().conditions, further=(Fact(label="Users", text="200"),))},
    ),
    ("not a number of users", {"tested": replace(document().tested, model="Chat model for 50 users")}),
    ("not a number of users", {"tested": replace(document().tested, further=(Fact(label="Note", text="8-user box"),))}),
    ("The evidence digest is not that", {"evidence_digest": "0" * 64}),
    ("lists the evidence", {"evidence": (), "evidence_digest": manifest_digest(())}),
    ("Exactly the stated setting", {"rows": rows(chosen=2)}),
    ("Exactly the stated setting", {"rows": rows(chosen=None)}),
    ("one tail for each limit", {"rows": rows(classes=2)}),
    ("Rows go upward", {"rows": tuple(reversed(rows()))}),
    ("A result belongs to a setting", {"result": None}),
    ("gives a setting, or says why there is none", {"no_safe_setting": NONE_SAFE}),
    ("gives a setting, or says why there is none", {"chosen": None, "no_safe_setting": msgspec.UNSET}),
    ("A setting that holds is not left unstated", {"chosen": None, "rows": rows(chosen=None)}),
    ("A result without a safe setting states none", {"grade": "no safe setting found"}),
    ("A complete result has a setting", {"chosen": None, "grade": "complete"}),
    ("not a number of users", {"chosen": None, "no_safe_setting": NoSafeSetting(reasons=("Too slow for 8 users.",))}),
    ("rate that the open loop confirmed", {"confirmed": confirmed()}),
    ("one claim for each limit", {"classes": 2, "confirmed": confirmed()}),
    ("A confirmation is of the stated setting", {"chosen": None, "confirmed": confirmed()}),
    ("not a number of users", {"controls": (Control(title="Queue cap", value="8", words="Enough for 40 users."),)}),
    ("not a number of users", {"diagnosis": (Finding(title="x", found="found", evidence=("It supports 40 users.",)),)}),
    ("The audit head", {"audit_head": "F" * 64}),
    ("without a final slash", {"verify_base_url": "https://headroom.example/v/"}),
)


@pytest.mark.parametrize(("sentence", "changes"), IMPOSSIBLE)
def test_a_contradiction_is_refused_in_words(sentence: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=sentence):
        document(**changes)


@pytest.mark.parametrize("days", [1, 90, 180])
def test_a_statement_may_be_valid_for_up_to_180_days(days: int) -> None:
    assert document(valid_until=ISSUED + timedelta(days=days)).valid_until == ISSUED + timedelta(days=days)


def test_the_checks_run_on_decoding_too() -> None:
    plain = msgspec.to_builtins(document()) | {"title": "supports 8 users"}
    with pytest.raises(msgspec.ValidationError, match="not a number of users"):
        msgspec.convert(plain, Document)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert(msgspec.to_builtins(document()) | {"users": 8}, Document)


def test_what_says_why_there_is_no_setting_has_a_reason() -> None:
    with pytest.raises(ValueError, match="has a reason"):
        NoSafeSetting(reasons=())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_rate_is_a_real_number(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Rate(value=value)


@pytest.mark.parametrize("wrong", [{"value_s": None, "state": "measured"}, {"value_s": 1.0, "state": "among failures"}])
def test_a_tail_has_a_value_exactly_when_it_was_measured(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="exactly when"):
        Tail(n=1, **wrong)


@pytest.mark.parametrize("digest", ["", "0" * 63, "G" * 64, "A" * 64])
def test_an_evidence_digest_is_a_sha256(digest: str) -> None:
    with pytest.raises(ValueError, match="64 lower-case"):
        EvidenceCell(cell="c1", sha256=digest, records=1)


def test_the_manifest_digest_follows_every_cell() -> None:
    cells = evidence()
    assert len({manifest_digest(cells[:count]) for count in range(len(cells) + 1)}) == len(cells) + 1


@pytest.mark.parametrize(
    ("sentence", "changes"),
    [
        ("keeps every limit that it claims", {"claims": (Claim(n=9, value_s=9.0, holds=False),)}),
        ("keeps every limit that it claims", {"claims": (Claim(n=0, value_s=None, state="not recorded"),)}),
        ("Somebody authorised", {"authorised": ()}),
        ("has a rate and a queue cap", {"rate_per_minute": 0.0}),
        ("carries its offset", {"started_at": ISSUED.replace(tzinfo=None)}),
    ],
)
def test_a_confirmation_that_contradicts_itself_is_refused(sentence: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=sentence):
        replace(confirmed(), **changes)


@pytest.mark.parametrize("wrong", [{"value_s": None}, {"value_s": float("inf")}, {"value_s": 1.0, "bound_s": -1.0}])
def test_a_claim_has_real_times(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"exactly when|finite"):
        Claim(n=1, **wrong)
