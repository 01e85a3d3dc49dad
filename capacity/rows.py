"""Database rows as JSON lines that any database takes back: every column, times to the microsecond, bytes in base64."""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

Row = dict[str, Any]


class BadRowsError(ValueError):
    """A file of rows that cannot be taken; the message says which and why."""


def columns(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    return list(model._meta.concrete_fields)


def as_row(one: models.Model) -> Row:
    """Column name -> plain JSON value."""
    return {field.attname: _plain(field.value_from_object(one)) for field in columns(type(one))}


def from_row(model: type[models.Model], row: Row) -> models.Model:
    """An unsaved instance. Raises BadRowsError where a column is unknown, missing or of the wrong kind."""
    fields = {field.attname: field for field in columns(model)}
    if row.keys() != fields.keys():
        odd = ", ".join(sorted(row.keys() ^ fields.keys()))
        raise BadRowsError(
            f"{model._meta.label}: the columns differ ({odd}). It was written by another version of Headroom."
        )
    try:
        return model(**{name: _value(field, row[name]) for name, field in fields.items()})
    except (ValidationError, binascii.Error, TypeError, ValueError) as error:
        raise BadRowsError(f"{model._meta.label}: a row cannot be read: {error}") from error


def insert(one: models.Model) -> None:
    """As it is: no default, no time of now, no signal's own idea."""
    one.save_base(raw=True, force_insert=True)


def write(path: Path, rows: Iterable[Row]) -> tuple[int, str]:
    """Gzipped JSON lines; how many, and the SHA-256 of the lines."""
    count, digest = 0, hashlib.sha256()
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        for row in rows:
            line = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
            packed.write(line)
            digest.update(line)
            count += 1
    return count, digest.hexdigest()


def read(path: Path, *, count: int, sha256: str) -> Iterator[Row]:
    """The rows of a file; BadRowsError as soon as they are seen not to be those that were written."""
    digest, seen = hashlib.sha256(), 0
    try:
        with gzip.open(path, "rb") as lines:
            for line in lines:
                digest.update(line)
                seen += 1
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise BadRowsError(f"{path.name}: line {seen} is no row")
                yield row
    except (OSError, EOFError, ValueError) as error:
        raise error if isinstance(error, BadRowsError) else BadRowsError(f"{path.name} is damaged: {error}") from error
    if (seen, digest.hexdigest()) != (count, sha256):
        raise BadRowsError(f"{path.name} was changed after it was written: {seen} rows of {count}, or other contents")


def _plain(value: object) -> object:
    if isinstance(value, bytes | memoryview):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value


def _value(field: models.Field[Any, Any], value: object) -> object:
    if value is None or isinstance(field, models.JSONField):
        return value
    if isinstance(field, models.BinaryField):
        return base64.b64decode(str(value), validate=True)
    if isinstance(field, models.ForeignKey):
        return field.target_field.to_python(value)
    return field.to_python(value)
