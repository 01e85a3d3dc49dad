"""The verdict on a statement file, JSON envelope or PDF, from its bytes, a keyring and the time. Nothing else is asked.

Exit codes: 0 valid, 1 tampered, 3 expired, 4 unknown signer, 5 key revoked, 6 not yet valid. (2 stays the command's
own, for a file or keyring that cannot be read.)
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import msgspec
from cryptography.hazmat.primitives import serialization

from capacity.statement import dsse, pdf, words
from capacity.statement.canonical import NotCanonicalError, digest_of, read_payload
from capacity.statement.document import Document, manifest_bytes
from capacity.statement.keys import KeyEntry, Keyring
from capacity.statement.phrases import when

State = Literal["valid", "expired", "not yet valid", "tampered", "unknown signer", "key revoked"]
CLOCK_TOLERANCE = timedelta(minutes=10)
EXIT_CODES: dict[State, int] = {
    "valid": 0,
    "tampered": 1,
    "expired": 3,
    "unknown signer": 4,
    "key revoked": 5,
    "not yet valid": 6,
}
HEADINGS: dict[State, str] = {
    "valid": "This statement is genuine and in force",
    "expired": "This statement is genuine and has expired",
    "not yet valid": "This statement is genuine and not yet in force",
    "tampered": "This is not a genuine statement",
    "unknown signer": "The signer of this statement is not known",
    "key revoked": "The key of this statement was revoked",
}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a verifier found. `document` is there only when every signature was right, whatever the date."""

    state: State
    heading: str
    sentence: str
    exit_code: int
    kind: Literal["JSON envelope", "PDF"]
    checked_at: datetime
    digest: str | None = None
    keyid: str | None = None
    key_name: str | None = None
    demonstration: bool = False
    notes: tuple[str, ...] = ()
    document: Document | None = None


class _Genuine(msgspec.Struct, frozen=True, kw_only=True):
    """A file whose signatures are all right."""

    document: Document
    digest: str
    entry: KeyEntry
    notes: tuple[str, ...] = ()


class _Refused(Exception):
    """A file that is not genuine, with the state and the words for it."""

    def __init__(self, state: State, sentence: str) -> None:
        super().__init__(sentence)
        self.state: State = state
        self.sentence = sentence


def verify(data: bytes, keyring: Keyring, now: datetime) -> Verdict:
    """The verdict on `data` at `now` (with offset). Never raises for what stands in `data`."""
    kind: Literal["JSON envelope", "PDF"] = "PDF" if data.startswith(b"%PDF-") else "JSON envelope"
    try:
        genuine = _check_pdf(data, keyring) if kind == "PDF" else _check_envelope(data, keyring)
    except _Refused as refused:
        return Verdict(
            state=refused.state,
            heading=HEADINGS[refused.state],
            sentence=refused.sentence,
            exit_code=EXIT_CODES[refused.state],
            kind=kind,
            checked_at=now,
        )
    return _in_time(genuine, kind, now)


def as_text(verdict: Verdict) -> str:
    """The verdict for a terminal."""
    lines = [f"{verdict.state.upper()}: {verdict.heading}.", verdict.sentence]
    if verdict.document is not None:
        lines += ["", *verdict_lines(verdict.document)]
        lines += [f"Key: Ed25519, {verdict.key_name} ({verdict.keyid})", f"Digest: sha256 {verdict.digest}"]
    return "\n".join([*lines, *verdict.notes])


def verdict_lines(document: Document) -> tuple[str, ...]:
    """What a genuine statement says, in a few lines."""
    approved = [f"{one.name}, {when(one.at, document.zone)}" for one in document.signatures if one.did == "Approved by"]
    return (
        f"{document.number}, {document.title}",
        f"Says: {words.result_sentence(document)}",
        "Does not say: how many users the system supports.",
        f"Grade: {document.grade}",
        f"Valid: {words.dates(document)}",
        f"Approved by: {'; '.join(approved) or 'not recorded'}",
    )


def _check_envelope(data: bytes, keyring: Keyring) -> _Genuine:
    try:
        opened = dsse.open_envelope(data, keyring.public_key, keyring.public_keys())
        document = read_payload(opened.payload)
    except dsse.UnknownSignerError as error:
        raise _Refused(
            "unknown signer", f"{error} The file may be genuine; ask its publisher for the keyring."
        ) from error
    except (dsse.EnvelopeError, NotCanonicalError) as error:
        raise _Refused(
            "tampered", f"The file was changed after it was signed, or is not a statement. {error}"
        ) from error
    entry = keyring.find(opened.keyid)
    if entry is None:
        raise _Refused("unknown signer", "The key is not in the keyring.")
    if document.demonstration != entry.demonstration:
        raise _Refused("tampered", "A demonstration and a real key do not go together.")
    return _Genuine(document=document, digest=digest_of(opened.payload), entry=entry)


def _check_pdf(data: bytes, keyring: Keyring) -> _Genuine:
    from capacity.statement import pades  # half a second to load, which only who has a PDF shall wait

    try:
        signed = pades.read_signed_pdf(data)
    except pades.PdfSignatureError as error:
        raise _Refused(
            "tampered", f"The file was changed after it was signed, or is not a statement. {error}"
        ) from error
    envelope = signed.attachments.get(pdf.ENVELOPE_FILE)
    if envelope is None:
        raise _Refused("tampered", "The PDF does not carry the signed statement that it was made from.")
    genuine = _check_envelope(envelope, keyring)
    form = serialization.Encoding.DER
    if signed.leaf.public_bytes(form) != genuine.entry.leaf().public_bytes(form):
        raise _Refused(
            "unknown signer", "The PDF was signed by another certificate than the keyring binds to the statement's key."
        )
    if not signed.leaf.not_valid_before_utc <= genuine.document.issued_at <= signed.leaf.not_valid_after_utc:
        raise _Refused("tampered", "The certificate was not valid when the statement was issued.")
    if signed.keywords != f"sha256 {genuine.digest}":
        raise _Refused("tampered", "The digest in the PDF is not that of the statement it carries.")
    if signed.attachments.get(pdf.MANIFEST_FILE) != manifest_bytes(genuine.document.evidence):
        raise _Refused("tampered", "The evidence list in the PDF is not that of the statement.")
    note = _page_note(data, envelope, genuine)
    return _Genuine(document=genuine.document, digest=genuine.digest, entry=genuine.entry, notes=(note,))


def _page_note(data: bytes, envelope: bytes, genuine: _Genuine) -> str:
    """Whether the page, set again from the signed text, is the page in the file byte for byte."""
    try:
        again = pdf.render(genuine.document, envelope=envelope)
    except pdf.PageError:
        again = None
    if again is not None and data.startswith(again):
        return "The page was set again from the signed text and is the same, byte for byte."
    return (
        "The page was not compared byte for byte: it was set by another version than this one. Its signature is right."
    )


def _in_time(genuine: _Genuine, kind: Literal["JSON envelope", "PDF"], now: datetime) -> Verdict:
    state, sentence = _state(genuine, now)
    notes = list(genuine.notes)
    document = genuine.document
    if genuine.entry.demonstration:
        notes.insert(0, f"Demonstration key “{genuine.entry.name}”: it proves nothing about a real service.")
    if document.simulated:
        notes.insert(0, words.SIMULATED)
    return Verdict(
        state=state,
        heading=HEADINGS[state],
        sentence=sentence,
        exit_code=EXIT_CODES[state],
        kind=kind,
        checked_at=now,
        digest=genuine.digest,
        keyid=genuine.entry.keyid,
        key_name=genuine.entry.name,
        demonstration=genuine.entry.demonstration,
        notes=tuple(notes),
        document=document,
    )


def _state(genuine: _Genuine, now: datetime) -> tuple[State, str]:
    document, entry = genuine.document, genuine.entry
    if entry.revoked_at is not None:
        why = f" Reason: {entry.revoked_reason}." if entry.revoked_reason else ""
        return (
            "key revoked",
            f"The key was revoked on {when(entry.revoked_at, document.zone)}; nothing it signed counts.{why}",
        )
    if now < document.issued_at - CLOCK_TOLERANCE:
        return (
            "not yet valid",
            f"It is in force from {when(document.issued_at, document.zone)}; check this machine's clock.",
        )
    if now >= document.valid_until:
        return "expired", f"It was in force until {when(document.valid_until, document.zone)}; measure again."
    return (
        "valid",
        f"Checked on {when(now, document.zone)}; in force until {when(document.valid_until, document.zone)}.",
    )
