"""How much a page takes: said before anything is read, so that no file fills the disk, and told to the person in words.

A view that takes a file states how large its request may be, `@takes(bytes)`; all others take what a form needs. What a
file holds is judged where it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

View = TypeVar("View", bound=Callable[..., HttpResponseBase])
MB = 1_000_000
TOO_LARGE = 413
DRAINED = 64 * MB
"""Of a request that is refused so much is read and thrown away, because a browser shows no answer before it has sent all."""


def takes(most_bytes: int) -> Callable[[View], View]:
    """Marks a view that takes a file: how many bytes its request may have."""

    def mark(view: View) -> View:
        view.takes_bytes = most_bytes  # type: ignore[attr-defined]
        return view

    return mark


class UploadMiddleware:
    """Refuses a request that is larger than its view takes. Stands before whatever reads the request's body."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], _args: tuple[Any, ...], _kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        most = getattr(view, "takes_bytes", settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        sent = _length(request)
        if sent <= most:
            return None
        _drain(request, min(sent, DRAINED))
        context = {"most_mb": most / MB, "sent_mb": sent / MB, "back": request.path}
        return render(request, "413.html", context, status=TOO_LARGE)


def _length(request: HttpRequest) -> int:
    told = str(request.META.get("CONTENT_LENGTH") or "")
    return int(told) if told.isdecimal() else 0


def _drain(request: HttpRequest, left: int) -> None:
    while left > 0 and (piece := request.read(min(left, 1 << 20))):
        left -= len(piece)
