"""Bytes of a foreign file into rows of text, inside limits: size, rows, width of a line and of a cell.

Nothing of a file is executed or kept as text: cells are numbers, stamps and short labels. A file that carries prompts or
answers is refused, because only synthetic prompts are ever sent and a corpus has no business here.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Iterator

import msgspec

MOST_BYTES = 20_000_000
MOST_TEXT_BYTES = 60_000_000  # what a compressed file may become
MOST_ROWS = 1_000_000
MOST_LINE_CHARS = 400_000  # a request of 500,000 tokens lists some 30,000 blocks of 16
MOST_CELL_CHARS = 200
_GZIP = b"\x1f\x8b"
_DELIMITERS = ",;\t"
# Columns that hold texts in data sets of prompts, as `plain_name` writes them.
TEXT_COLUMNS = frozenset(
    {
        "answer",
        "answers",
        "body",
        "chosen",
        "completion",
        "content",
        "context",
        "conversation",
        "conversations",
        "document",
        "generatedtext",
        "input",
        "inputtext",
        "instruction",
        "message",
        "messages",
        "output",
        "outputtext",
        "prompt",
        "prompts",
        "prompttext",
        "query",
        "question",
        "reference",
        "rejected",
        "request",
        "response",
        "responses",
        "responsetext",
        "system",
        "systemprompt",
        "text",
        "turns",
        "value",
    }
)

Cell = str | int | float | bool | None | list[object] | dict[str, object]


class TraceRefused(ValueError):
    """Why a file is not read, as a sentence for the person who gave it."""


def plain_name(column: str) -> str:
    """A column's name without case, blanks and signs: "Request tokens" and request_tokens are one."""
    return re.sub(r"[^a-z0-9]+", "", column.casefold())


def text_of(data: bytes) -> str:
    """The file as text, unpacked where it is gzip. Raises TraceRefused."""
    if len(data) > MOST_BYTES:
        raise TraceRefused(
            f"The file has {len(data) / 1e6:,.1f} MB; at most {MOST_BYTES / 1e6:.0f} MB are read. Cut it to its first lines."
        )
    if data.startswith(_GZIP):
        data = _unpacked(data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TraceRefused("This is not a text file in UTF-8. A trace is CSV or one JSON object per line.") from error
    if "\0" in text:
        raise TraceRefused("This is not a text file: it holds zero bytes. A trace is CSV or one JSON object per line.")
    if not text.strip():
        raise TraceRefused("The file is empty.")
    return text


def _unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        found = unpacker.decompress(data, MOST_TEXT_BYTES)
    except zlib.error as error:
        raise TraceRefused("The gzip file is damaged.") from error
    if unpacker.unconsumed_tail:
        raise TraceRefused(
            f"Unpacked, the file has more than {MOST_TEXT_BYTES / 1e6:.0f} MB. Cut it to its first lines."
        )
    if not unpacker.eof:
        raise TraceRefused("The gzip file ends too early.")
    return found


def lines_of(text: str) -> Iterator[str]:
    """Lines without their ends, empty ones left out; LF and CRLF only, since U+2028 may stand inside JSON."""
    at = number = 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        number += 1
        if end - at > MOST_LINE_CHARS:
            raise TraceRefused(f"Line {number:,} has {end - at:,} characters. That is no trace of lengths.")
        line = text[at:end].removesuffix("\r")
        at = end + 1
        if line.strip():
            yield line


def table_of(text: str) -> tuple[list[str], list[list[str]]]:
    """Header and columns of a CSV (comma, semicolon or tab). Every row has the header's width; no cell is a text."""
    lines = lines_of(text)
    first = next(lines)
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        header = [cell.strip() for cell in next(csv.reader([first], delimiter=delimiter))]
        columns: list[list[str]] = [[] for _ in header]
        for number, row in enumerate(csv.reader(lines, delimiter=delimiter, strict=True)):
            _check_row(row, number, len(header))
            for column, cell in zip(columns, row, strict=True):
                column.append(cell)
    except csv.Error as error:
        raise TraceRefused(f"The CSV cannot be read: {error}.") from error
    return header, columns


def _check_row(row: list[str], before: int, width: int) -> None:
    if before >= MOST_ROWS:
        raise TraceRefused(f"The file has more than {MOST_ROWS:,} requests. Cut it to its first lines.")
    if len(row) != width:
        raise TraceRefused(f"Row {before + 1:,} has {len(row)} cells, the first line has {width}.")
    for cell in row:
        if len(cell) > MOST_CELL_CHARS:
            raise TraceRefused(f"Row {before + 1:,} holds a text of {len(cell):,} characters. {ONLY_SYNTHETIC}")


ONLY_SYNTHETIC = (
    "Only synthetic prompts are ever sent, so a file with prompts or answers is not taken: give a file of lengths, with "
    "a number of prompt tokens and of answer tokens for each request."
)


def refuse_texts(names: list[str], first_row: list[Cell]) -> None:
    """A column that is called like a text and does not hold a number is one."""
    for name, cell in zip(names, first_row, strict=False):
        if plain_name(name) in TEXT_COLUMNS and not is_number(cell):
            raise TraceRefused(f"The column “{name[:60]}” holds texts. {ONLY_SYNTHETIC}")
        if isinstance(cell, str) and len(cell) > MOST_CELL_CHARS:
            raise TraceRefused(f"The column “{name[:60]}” holds texts. {ONLY_SYNTHETIC}")


def is_number(cell: Cell) -> bool:
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True


def records_of(text: str) -> list[dict[str, Cell]]:
    """The objects of a file with one JSON object per line. All have the keys of the first."""
    decode = msgspec.json.Decoder(dict[str, Cell]).decode
    found: list[dict[str, Cell]] = []
    for line in lines_of(text):
        if len(found) >= MOST_ROWS:
            raise TraceRefused(f"The file has more than {MOST_ROWS:,} requests. Cut it to its first lines.")
        try:
            record = decode(line)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise TraceRefused(f"Line {len(found) + 1:,} is not a JSON object: {_short(error)}.") from error
        if found and record.keys() != found[0].keys():
            odd = sorted(record.keys() ^ found[0].keys())[0]
            raise TraceRefused(f"Line {len(found) + 1:,} and the first line differ: only one of them has “{odd[:60]}”.")
        found.append(record)
    refuse_texts(list(found[0]), list(found[0].values()))
    return found


def _short(error: Exception) -> str:
    return str(error).partition("\n")[0][:120].rstrip(".") or type(error).__name__
