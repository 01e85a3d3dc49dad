"""The PDF: reproducible, archivable, one page before its annex, and no changed byte is ever called valid."""

from __future__ import annotations

import io
import random
import re
from typing import Any

import msgspec
import pytest
from pypdf import PdfReader
from pypdf.generic import DictionaryObject

from capacity.statement import pades, pdf
from capacity.statement.document import manifest_bytes
from capacity.statement.figures import charts_svg
from capacity.statement.issue import SignedStatement, issue
from capacity.statement.keys import Keyring, KeySet
from capacity.statement.verify import verify
from tests.capacity.statement.documents import DURING, LONG, PAGES, SIGNATURES, TESTED, document


def annex_page(data: bytes) -> int:
    """The first page, from 1, that carries the annex."""
    pages = PdfReader(io.BytesIO(data)).pages
    return next(place for place, one in enumerate(pages, start=1) if "What was not tested" in one.extract_text())


def test_the_page_is_the_same_bytes_every_time() -> None:
    assert pdf.render(document(), envelope=b"{}") == pdf.render(document(), envelope=b"{}")


def test_signing_is_the_same_bytes_before_the_signature(signed: SignedStatement, demonstration_keys: KeySet) -> None:
    full = msgspec.structs.replace(document(), key_name=demonstration_keys.entry.name)
    assert signed.pdf.startswith(pdf.render(full, envelope=signed.envelope))


def test_envelope_and_evidence_list_are_attached(signed: SignedStatement) -> None:
    assert pades.read_signed_pdf(signed.pdf).attachments == {
        "statement.dsse.json": signed.envelope,
        "evidence-manifest.json": manifest_bytes(document().evidence),
    }


def test_it_declares_pdf_a_and_pdf_ua(signed: SignedStatement) -> None:
    root = PdfReader(io.BytesIO(signed.pdf)).trailer["/Root"]
    assert isinstance(root, DictionaryObject)
    metadata = root["/Metadata"].get_data().decode()
    claims = (r'pdfaid:part(>|=")3', r'pdfaid:conformance(>|=")B', r'pdfuaid:part(>|=")1')
    assert [claim for claim in claims if not re.search(claim, metadata)] == []


@pytest.mark.parametrize("settings", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("classes", [1, 2, 3, 4])
def test_page_one_holds_one_to_six_settings_of_one_to_four_classes(settings: int, classes: int) -> None:
    made = document(settings=settings, classes=classes, simulated=True)
    assert annex_page(pdf.render(made, envelope=b"{}")) == 2


@pytest.mark.parametrize("name", list(PAGES))
def test_page_one_holds_every_kind_of_statement(name: str) -> None:
    assert annex_page(pdf.render(PAGES[name](), envelope=b"{}")) == 2


def test_long_names_stay_on_page_one_and_inside_it() -> None:
    tested = msgspec.structs.replace(TESTED, model=LONG * 2, runtime=LONG, hardware_declared=LONG)
    people = tuple(msgspec.structs.replace(one, name=LONG) for one in SIGNATURES)
    made = pdf.render(document(title=f"{LONG} on {LONG}", tested=tested, signatures=people), envelope=b"{}")
    assert annex_page(made) == 2
    first = PdfReader(io.BytesIO(made)).pages[0]
    right_edges: list[float] = []
    first.extract_text(
        visitor_text=lambda text, cm, tm, font, size: right_edges.append(tm[4]) if text.strip() else None
    )
    assert max(right_edges) < float(first.mediabox.width) - 40


def words_of(made: bytes) -> list[str]:
    return " ".join(one.extract_text() for one in PdfReader(io.BytesIO(made)).pages).split()


def test_a_very_full_statement_flows_on_and_loses_nothing() -> None:
    limits = tuple(f"limit number {place} with many more words than any limit needs to have" for place in range(60))
    made = pdf.render(document(operating_limits=limits), envelope=b"{}")
    # A limit may stand on both sides of a page's foot, so words are counted, not sentences found: those of the limits alone.
    said, without = words_of(made), words_of(pdf.render(document(operating_limits=()), envelope=b"{}"))
    assert [said.count(word) - without.count(word) for word in ("many", "words", "needs")] == [60] * 3
    assert annex_page(made) > 2


@pytest.mark.parametrize(("changes", "labels"), [({"simulated": True}, 2), ({}, 1), ({"demonstration": False}, 0)])
def test_every_page_carries_its_labels_and_its_provenance(changes: dict[str, Any], labels: int) -> None:
    pages = PdfReader(io.BytesIO(pdf.render(document(**changes), envelope=b"{}"))).pages
    for one in pages:
        said = " ".join(one.extract_text().split())
        assert [word in said for word in ("DEMONSTRATION", "SIMULATED")].count(True) == labels
        assert "Lahore office, server room; Mains, no transfer; 14 Nov 2026" in said
        assert "CS-2026-014" in said


def test_letters_without_a_glyph_are_refused_in_words() -> None:
    with pytest.raises(pdf.PageError, match="could not be set"):
        pdf.render(document(title="支持"), envelope=b"{}")


@pytest.mark.parametrize("title", ["Zürich, Łódź, Αθήνα", 'A & B <chat> "x" #1 $ \\ * _ `'])
def test_letters_and_signs_of_the_typesetter_are_only_letters(title: str) -> None:
    made = pdf.render(document(title=title), envelope=b"{}")
    said = "".join(PdfReader(io.BytesIO(made)).pages[0].extract_text().split())
    assert "".join(title.split()) in said


def test_the_chart_keeps_the_failing_point_hollow_and_names_what_it_cannot_draw() -> None:
    table = document().rows
    tails = tuple(
        msgspec.structs.replace(t, value_s=None, bound_s=None, state="among failures") for t in table[3].tails
    )
    cut = document(rows=(*table[:3], msgspec.structs.replace(table[3], tails=tails)))
    assert charts_svg(document()).count('r="3.2" fill="#ffffff"') == 1
    assert "without a p95, not drawn: 8" in charts_svg(cut)
    assert "not drawn" not in charts_svg(document())


def test_no_flipped_byte_of_the_pdf_is_called_valid(signed: SignedStatement, keyring: Keyring) -> None:
    dice = random.Random(20261130)
    start = signed.pdf.index(b"/Contents <")
    everywhere = [dice.randrange(len(signed.pdf)) for _ in range(300)]
    container = [start + dice.randrange(2500) for _ in range(100)]
    states = []
    for place in everywhere + container:
        flipped = bytearray(signed.pdf)
        flipped[place] ^= 1 << dice.randrange(8)
        states.append(verify(bytes(flipped), keyring, DURING).state)
    assert {state for state in states if state in ("valid", "expired")} == set()
    assert len(states) == 400


ADDED = (b"\n", b"%", b"\0", b" ", b"%%EOF\n", b"trailer\n", b"x" * 5000)


@pytest.mark.parametrize("added", ADDED)
def test_no_appended_byte_is_called_valid(signed: SignedStatement, keyring: Keyring, added: bytes) -> None:
    assert verify(signed.pdf + added, keyring, DURING).state == "tampered"
    assert verify(added + signed.pdf, keyring, DURING).state == "tampered"


def test_no_shortened_pdf_is_called_valid(signed: SignedStatement, keyring: Keyring) -> None:
    for length in (0, 5, 8, 100, 10_000, len(signed.pdf) // 2, len(signed.pdf) - 1):
        assert verify(signed.pdf[:length], keyring, DURING).state == "tampered"


def test_other_forms_of_the_signature_container_are_refused(signed: SignedStatement, keyring: Keyring) -> None:
    start = signed.pdf.index(b"/Contents <") + len(b"/Contents <")
    end = signed.pdf.index(b">", start)
    digits = signed.pdf[start:end]
    for form in (digits.lower(), digits[:-1] + b"1", digits[:-2] + b"  ", digits.replace(b"0000", b"000\n", 1)):
        assert len(form) == len(digits)
        assert verify(signed.pdf[:start] + form + signed.pdf[end:], keyring, DURING).state == "tampered"


def test_a_second_signature_is_refused(signed: SignedStatement, demonstration_keys: KeySet, keyring: Keyring) -> None:
    twice = signed.pdf + signed.pdf[signed.pdf.rindex(b"%PDF-") :]
    assert verify(twice, keyring, DURING).state == "tampered"


def test_an_unsigned_page_is_not_a_statement(
    demonstration_keys: KeySet, keyring: Keyring, signed: SignedStatement
) -> None:
    full = msgspec.structs.replace(document(), key_name=demonstration_keys.entry.name)
    assert verify(pdf.render(full, envelope=signed.envelope), keyring, DURING).state == "tampered"


def test_a_page_of_other_words_signed_by_the_same_leaf_is_told(demonstration_keys: KeySet, keyring: Keyring) -> None:
    """Envelope of one document inside the page of another: the digest of the page is not that of the envelope."""
    one, other = issue(document(), demonstration_keys), document(title="Another title", key_name="demonstration")
    page = pdf.render(other, envelope=one.envelope)
    mixed = pades.sign_pdf(page, demonstration_keys, at=other.issued_at, reason="mixed")
    assert verify(mixed, keyring, DURING).state == "tampered"
