"""The signed payload: an in-toto Statement v1 whose predicate is the document, in one canonical JSON form.

Canonical: keys sorted, no spaces, UTF-8, no NaN or infinity. The subject is the evidence manifest by its SHA-256.
Source: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal

import msgspec

from capacity.statement.document import Document

STATEMENT_TYPE: Literal["https://in-toto.io/Statement/v1"] = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Literal["urn:headroom:capacity-statement:v1"] = "urn:headroom:capacity-statement:v1"
SUBJECT_NAME: Literal["evidence-manifest.json"] = "evidence-manifest.json"


class NotCanonicalError(ValueError):
    """The bytes are not the one canonical form of what they say."""


class _Digest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sha256: str


class _Subject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Literal["evidence-manifest.json"]
    digest: _Digest


class _InToto(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    subject: tuple[_Subject]
    predicate: Document
    type_: Literal["https://in-toto.io/Statement/v1"] = msgspec.field(name="_type", default=STATEMENT_TYPE)
    predicate_type: Literal["urn:headroom:capacity-statement:v1"] = msgspec.field(
        name="predicateType", default=PREDICATE_TYPE
    )


def canonical_json(value: object) -> bytes:
    """One byte form for one value. `value` is a msgspec struct or plain JSON values; raises ValueError on NaN."""
    plain = msgspec.to_builtins(value)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def normal(document: Document) -> Document:
    """The document as a reader will decode it: an int given for a float field becomes that float."""
    return msgspec.convert(msgspec.to_builtins(document), Document)


def payload_bytes(document: Document) -> bytes:
    """The bytes that are signed."""
    subject = _Subject(name=SUBJECT_NAME, digest=_Digest(sha256=document.evidence_digest))
    payload = canonical_json(_InToto(subject=(subject,), predicate=normal(document)))
    read_payload(payload)
    return payload


def read_payload(payload: bytes) -> Document:
    """The document in canonical `payload`; raises NotCanonicalError for anything else, unknown fields included."""
    try:
        statement = msgspec.json.decode(payload, type=_InToto)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotCanonicalError(f"The payload is not a capacity statement: {error}") from error
    if canonical_json(statement) != payload:
        raise NotCanonicalError("The payload is not in canonical form.")
    if statement.subject[0].digest.sha256 != statement.predicate.evidence_digest:
        raise NotCanonicalError("The subject is not the evidence that the statement lists.")
    return statement.predicate


def digest_of(payload: bytes) -> str:
    """The statement's digest: SHA-256 of the signed payload, in hexadecimal."""
    return hashlib.sha256(payload).hexdigest()
