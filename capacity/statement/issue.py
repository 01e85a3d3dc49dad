"""From a document and a key set to the two signed files: the one entry for whoever issues statements."""

from __future__ import annotations

import msgspec

from capacity.statement import dsse, pdf
from capacity.statement.canonical import digest_of, normal, payload_bytes, read_payload
from capacity.statement.document import Document
from capacity.statement.keys import KeySet


class RefusedError(ValueError):
    """The key set may not sign this document; the words say why."""


class SignedStatement(msgspec.Struct, frozen=True, kw_only=True):
    """Both files of a statement. `digest` is the SHA-256 of the signed payload."""

    envelope: bytes
    pdf: bytes
    digest: str


def refusals(document: Document, keyset: KeySet) -> tuple[str, ...]:
    """Why this key set may not sign this document; empty when it may.

    A demonstration key signs demonstrations only, of any grade. A real key signs a complete result, a found absence of
    a safe setting, or one that needs revision with a waiver; never a simulated result.
    """
    real = not keyset.entry.demonstration
    graded = document.grade in ("complete", "no safe setting found") or (
        document.grade == "needs revision" and bool(document.waiver)
    )
    rules = (
        (document.demonstration and real, "A demonstration cannot be signed with a real key."),
        (document.simulated and real, "A simulated result cannot be signed with a real key."),
        (
            not document.demonstration and not real,
            "A demonstration key signs only documents that are labelled demonstration.",
        ),
        (real and not graded, f"A real key does not sign the grade “{document.grade}” as it stands."),
        (keyset.entry.revoked_at is not None, "This key was revoked."),
    )
    return tuple(sentence for applies, sentence in rules if applies)


def issue(document: Document, keyset: KeySet) -> SignedStatement:
    """Signs `document`: envelope, then the PDF made from it.

    Raises RefusedError, or pdf.PageError for letters that no font has.
    """
    from capacity.statement.pades import sign_pdf  # half a second to load, which only who signs shall wait

    if reasons := refusals(document, keyset):
        raise RefusedError(" ".join(reasons))
    document = normal(msgspec.structs.replace(document, key_name=keyset.entry.name))
    payload = payload_bytes(document)
    envelope = dsse.sign(payload, keyset.ed25519)
    page = pdf.render(document, envelope=envelope)
    signed = sign_pdf(page, keyset, at=document.issued_at, reason=f"Capacity statement {document.number}")
    return SignedStatement(envelope=envelope, pdf=signed, digest=digest_of(payload))


def document_in(envelope: bytes) -> Document:
    """The document inside an envelope of one's own store, read without judging the signature; `verify` judges."""
    return read_payload(dsse.payload_in(envelope))
