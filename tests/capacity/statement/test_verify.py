"""The verdict on either file, and the command that gives it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from capacity.statement import dsse, pades, pdf
from capacity.statement.canonical import normal, payload_bytes
from capacity.statement.document import Document
from capacity.statement.issue import RefusedError, SignedStatement, document_in, issue
from capacity.statement.keys import KEYRING, Keyring, KeySet
from capacity.statement.verify import EXIT_CODES, HEADINGS, Verdict, as_text, verify
from tests.capacity.statement.documents import AFTER, DURING, ISSUED, document

ROOT = Path(__file__).resolve().parents[3]
FORMS = ("envelope", "pdf")
UNTIL = ISSUED + timedelta(days=90)
SECOND = timedelta(seconds=1)


def entries(keyring: Keyring, **changes: Any) -> Keyring:
    """The keyring with its demonstration entry changed."""
    return Keyring(
        keys=tuple(msgspec.structs.replace(one, **changes) if one.demonstration else one for one in keyring.keys)
    )


def without(keyring: Keyring, name: str) -> Keyring:
    return Keyring(keys=tuple(one for one in keyring.keys if one.name != name))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("now", "state"),
    [
        (ISSUED - timedelta(days=1), "not yet valid"),
        (ISSUED - timedelta(minutes=10, seconds=1), "not yet valid"),
        (ISSUED - timedelta(minutes=10), "valid"),
        (ISSUED, "valid"),
        (DURING, "valid"),
        (UNTIL - SECOND, "valid"),
        (UNTIL, "expired"),
        (AFTER, "expired"),
    ],
)
def test_time_decides_between_in_force_and_not(
    signed: SignedStatement, keyring: Keyring, form: str, now: datetime, state: str
) -> None:
    verdict = verify(getattr(signed, form), keyring, now)
    assert (verdict.state, verdict.exit_code, verdict.heading) == (state, EXIT_CODES[state], HEADINGS[state])
    assert verdict.digest == signed.digest


@pytest.mark.parametrize("form", FORMS)
def test_a_demonstration_key_is_named_as_such(signed: SignedStatement, keyring: Keyring, form: str) -> None:
    verdict = verify(getattr(signed, form), keyring, DURING)
    assert verdict.demonstration is True
    assert "Demonstration key “demonstration”: it proves nothing about a real service." in as_text(verdict)


def test_a_pdf_is_set_again_and_compared(signed: SignedStatement, keyring: Keyring) -> None:
    assert (
        "The page was set again from the signed text and is the same, byte for byte."
        in verify(signed.pdf, keyring, DURING).notes
    )


def test_one_changed_byte_reads_tampered_at_every_position_of_an_envelope(
    signed: SignedStatement, keyring: Keyring
) -> None:
    envelope = signed.envelope
    states = {
        verify(envelope[:at] + bytes([envelope[at] ^ (1 << at % 8)]) + envelope[at + 1 :], keyring, DURING).state
        for at in range(len(envelope))
    }
    assert states == {"tampered"}


@pytest.mark.parametrize("digit", "0123456789abcdef")
def test_a_changed_key_id_is_a_changed_file_and_no_unknown_signer(
    signed: SignedStatement, keyring: Keyring, digit: str
) -> None:
    keyid = json.loads(signed.envelope)["signatures"][0]["keyid"]
    spoilt = [signed.envelope.replace(keyid.encode(), (keyid[:n] + digit + keyid[n + 1 :]).encode()) for n in range(64)]
    found = {verify(data, keyring, DURING).state for data in spoilt if data != signed.envelope}
    assert found == {"tampered"}


@pytest.mark.parametrize("form", FORMS)
def test_an_unknown_signer_is_told_from_a_changed_file(signed: SignedStatement, keyring: Keyring, form: str) -> None:
    verdict = verify(getattr(signed, form), without(keyring, "demonstration"), DURING)
    assert (verdict.state, verdict.exit_code, verdict.document) == ("unknown signer", 4, None)


@pytest.mark.parametrize("form", FORMS)
def test_a_revoked_key_makes_all_it_signed_worthless(signed: SignedStatement, keyring: Keyring, form: str) -> None:
    revoked = entries(keyring, revoked_at=DURING, revoked_reason="the machine was stolen")
    verdict = verify(getattr(signed, form), revoked, DURING)
    assert (verdict.state, verdict.exit_code) == ("key revoked", 5)
    assert verdict.sentence.endswith("Reason: the machine was stolen.")


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"%PDF-1.7", b"%PDF-1.7\n" + b"x" * 999, b"\xff" * 99, b"null", b"[" * 99999]
)
def test_what_is_no_statement_is_not_genuine(keyring: Keyring, data: bytes) -> None:
    verdict = verify(data, keyring, DURING)
    assert (verdict.state, verdict.exit_code, verdict.document) == ("tampered", 1, None)


def graded(**changes: Any) -> Document:
    chosen = None if changes["grade"] == "no safe setting found" else 4
    return document(chosen=chosen, demonstration=False, **changes)


MAY = (
    ("complete", ""),
    ("no safe setting found", ""),
    ("needs revision", "Accepted by the owner until 1 Dec 2026."),
)
MAY_NOT = (("ungraded", ""), ("needs revision", ""))


@pytest.mark.parametrize(("grade", "waiver"), MAY)
def test_a_real_key_signs_a_graded_result(real_keys: KeySet, keyring: Keyring, grade: str, waiver: str) -> None:
    made = issue(graded(grade=grade, waiver=waiver), real_keys)
    for data in (made.envelope, made.pdf):
        verdict = verify(data, keyring, DURING)
        assert (verdict.state, verdict.demonstration, verdict.key_name) == ("valid", False, "lhr-2026-1")


@pytest.mark.parametrize(("grade", "waiver"), MAY_NOT)
def test_a_real_key_signs_nothing_else(real_keys: KeySet, grade: str, waiver: str) -> None:
    with pytest.raises(RefusedError, match="does not sign the grade"):
        issue(graded(grade=grade, waiver=waiver), real_keys)


def test_a_real_key_signs_no_demonstration_and_no_simulation(real_keys: KeySet) -> None:
    with pytest.raises(RefusedError, match="A simulated result cannot be signed with a real key"):
        issue(document(grade="complete", simulated=True), real_keys)
    with pytest.raises(RefusedError, match="A demonstration cannot be signed with a real key"):
        issue(document(grade="complete"), real_keys)


def test_a_demonstration_key_signs_only_what_is_labelled_so(demonstration_keys: KeySet) -> None:
    with pytest.raises(RefusedError, match="labelled demonstration"):
        issue(graded(grade="complete"), demonstration_keys)


def test_a_revoked_key_signs_nothing(demonstration_keys: KeySet) -> None:
    entry = msgspec.structs.replace(demonstration_keys.entry, revoked_at=DURING)
    with pytest.raises(RefusedError, match="revoked"):
        issue(document(), msgspec.structs.replace(demonstration_keys, entry=entry))


def test_a_simulated_result_is_named_in_the_verdict(demonstration_keys: KeySet, keyring: Keyring) -> None:
    verdict = verify(issue(document(simulated=True), demonstration_keys).pdf, keyring, DURING)
    assert verdict.notes[0].startswith("Simulated:")


def test_a_real_labelled_document_under_a_demonstration_key_is_refused(
    demonstration_keys: KeySet, keyring: Keyring
) -> None:
    forged = dsse.sign(payload_bytes(graded(grade="complete")), demonstration_keys.ed25519)
    assert verify(forged, keyring, DURING).state == "tampered"


def test_a_pdf_by_another_leaf_of_the_same_keyring_is_refused(
    demonstration_keys: KeySet, real_keys: KeySet, signed: SignedStatement, keyring: Keyring
) -> None:
    full = msgspec.structs.replace(document(), key_name="demonstration")
    other = pades.sign_pdf(pdf.render(full, envelope=signed.envelope), real_keys, at=ISSUED, reason="other leaf")
    assert verify(other, keyring, DURING).state == "unknown signer"


def test_the_document_in_a_stored_envelope_is_the_one_that_was_signed(signed: SignedStatement) -> None:
    assert document_in(signed.envelope) == normal(msgspec.structs.replace(document(), key_name="demonstration"))


def test_one_document_and_one_key_set_make_one_envelope(signed: SignedStatement, demonstration_keys: KeySet) -> None:
    assert issue(document(), demonstration_keys).envelope == signed.envelope


def manage(*args: str, keys: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """The command as a person runs it; its database does not exist and cannot be made."""
    environment = os.environ | {
        "HEADROOM_VAR": str(home / "var"),
        "HEADROOM_KEYS": str(keys),
        "DATABASE_URL": "postgres://nobody:nothing@127.0.0.1:1/none",
        "DJANGO_SETTINGS_MODULE": "capacity.settings",
    }
    command = [sys.executable, str(ROOT / "manage.py"), *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_keys_are_made_and_a_statement_verified_by_command_without_a_database(
    tmp_path: Path, signed: SignedStatement, keys_folder: Path
) -> None:
    """One path through both commands, since each start of a process is slow."""
    made = manage("make_keys", "--demonstration", keys=tmp_path / "keys", home=tmp_path)
    assert (made.returncode, (tmp_path / "keys" / KEYRING).exists()) == (0, True), made.stderr
    again = manage("make_keys", "--demonstration", keys=tmp_path / "keys", home=tmp_path)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)

    shutil.copy(keys_folder / KEYRING, tmp_path / "published.json")
    keyring = ("--keyring", str(tmp_path / "published.json"))
    file, changed = tmp_path / "statement.pdf", tmp_path / "changed.json"
    file.write_bytes(signed.pdf)
    changed.write_bytes(signed.envelope[:-40] + bytes([signed.envelope[-40] ^ 1]) + signed.envelope[-39:])

    machine = manage("verify_statement", str(file), "--json", *keyring, keys=tmp_path / "keys", home=tmp_path)
    verdict = msgspec.convert(json.loads(machine.stdout), Verdict)
    assert (machine.returncode, verdict.digest) == (EXIT_CODES[verdict.state], signed.digest)
    assert verdict.state in ("valid", "expired", "not yet valid")

    stranger = manage("verify_statement", str(file), keys=tmp_path / "keys", home=tmp_path)
    assert (stranger.returncode, stranger.stdout.split(":")[0]) == (4, "UNKNOWN SIGNER")
    spoiled = manage("verify_statement", str(changed), *keyring, keys=tmp_path / "keys", home=tmp_path)
    assert (spoiled.returncode, spoiled.stdout.split(":")[0]) == (1, "TAMPERED")
    absent = manage("verify_statement", str(tmp_path / "none.pdf"), *keyring, keys=tmp_path / "keys", home=tmp_path)
    assert (absent.returncode, absent.stdout) == (2, "")
