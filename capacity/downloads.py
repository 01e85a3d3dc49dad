"""How a file is handed out: its type, and a name that says when it is simulated."""

from __future__ import annotations

from django.http import HttpResponse

KINDS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def attachment(content: str | bytes, content_type: str, name: str) -> HttpResponse:
    return HttpResponse(
        content, content_type=content_type, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


def table(body: str, fmt: str, stem: str, *, simulated: bool = False) -> HttpResponse:
    """A table as `fmt`, one of KINDS."""
    return attachment(body, KINDS[fmt], f"{stem}{'-simulated' if simulated else ''}.{fmt}")
