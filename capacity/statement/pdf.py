"""The statement as a PDF, before it is signed: typst sets the words of `words.page`, the charts and the QR code.

The bytes depend on the document, the envelope, the fonts and the typst version alone: the date is the statement's,
fonts are those in fonts/ and typst's own, never the machine's. PDF/A-3b and PDF/UA-1, with envelope and manifest
attached.
"""

from __future__ import annotations

import io
import re
from datetime import UTC
from pathlib import Path

import msgspec
import segno
import typst

from capacity.statement import words
from capacity.statement.document import Document, manifest_bytes
from capacity.statement.figures import charts_svg

HERE = Path(__file__).parent
ENVELOPE_FILE, MANIFEST_FILE = "statement.dsse.json", "evidence-manifest.json"
_LONG_WORD = re.compile(r"\S{18,}")
_BREAK_AFTER = re.compile(r"([-_/.:,;=])(?=.)")
_BREAK = "\u200b"
_EXACT = frozenset({"verify_url", "digest_groups", "code", "number"})


class PageError(ValueError):
    """The page cannot be set; the words say what in the document is the cause."""


class _Extra(msgspec.Struct, frozen=True, kw_only=True):
    """What the template needs beside words: the document's date in UTC."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int


def render(document: Document, *, envelope: bytes) -> bytes:
    """The unsigned PDF. Raises PageError when a name uses letters that none of the fonts has."""
    page = words.page(document)
    inputs = {
        "page": msgspec.json.encode(_breakable(msgspec.to_builtins(page))).decode(),
        "extra": msgspec.json.encode(_extra(document)).decode(),
        "charts": charts_svg(document),
        "qr": qr_svg(page.verify_url),
        "envelope": envelope.decode(),
        "manifest": manifest_bytes(document.evidence).decode(),
    }
    return _compile((HERE / "page.typ").read_bytes(), inputs)


def _extra(document: Document) -> _Extra:
    at = document.issued_at.astimezone(UTC)
    return _Extra(year=at.year, month=at.month, day=at.day, hour=at.hour, minute=at.minute, second=at.second)


def _compile(source: bytes, inputs: dict[str, str]) -> bytes:
    fonts = typst.Fonts(include_system_fonts=False, include_embedded_fonts=True, font_paths=[HERE / "fonts"])
    try:
        made = typst.compile(source, font_paths=fonts, format="pdf", sys_inputs=inputs, pdf_standards=["a-3b", "ua-1"])
    except typst.TypstError as error:
        raise PageError(f"The page could not be set: {error.message}. {' '.join(error.hints)}".strip()) from error
    if not isinstance(made, bytes):
        raise PageError("The page could not be set: the typesetter gave no file.")
    return made


def qr_svg(address: str) -> str:
    """The address as a QR code in SVG."""
    out = io.BytesIO()
    segno.make(address, error="m", micro=False).save(out, kind="svg", border=1, xmldecl=False, omitsize=True)
    return out.getvalue().decode()


def _breakable(value: object) -> object:
    """The words with zero-width spaces in very long ones, so that a long name breaks and does not leave its column."""
    if isinstance(value, str):
        return _LONG_WORD.sub(_broken, value)
    if isinstance(value, list | tuple):
        return [_breakable(part) for part in value]
    if isinstance(value, dict):
        return {key: part if key in _EXACT else _breakable(part) for key, part in value.items()}
    return value


def _broken(match: re.Match[str]) -> str:
    parts = _BREAK_AFTER.sub(rf"\1{_BREAK}", match.group()).split(_BREAK)
    return _BREAK.join(_BREAK.join(part[at : at + 12] for at in range(0, len(part), 12)) for part in parts)
