"""The language of a page: by the reader's own choice alone, kept in a cookie, English without one.

A browser's wish is not asked, so that nobody is given a translation that no native reader has reviewed without having
chosen it.
"""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.views import i18n

from benchmarks.access import public

FILES = (".csv", ".json", ".pdf", ".svg", ".zip", ".parquet")

set_language = public(i18n.set_language)


def chosen(request: HttpRequest) -> str:
    """The language that the reader chose, where the site still has it."""
    wanted = request.COOKIES.get(settings.LANGUAGE_COOKIE_NAME, "")
    return wanted if wanted in dict(settings.LANGUAGES) else settings.LANGUAGE_CODE


def is_file(request: HttpRequest) -> bool:
    """Files read the same in every language: their columns and words are evidence."""
    return request.path.endswith(FILES) or request.GET.get("format") in ("csv", "json")


class LanguageMiddleware:
    """Every page in the chosen language, every file in English, and both named so in their headers."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        language = settings.LANGUAGE_CODE if is_file(request) else chosen(request)
        with translation.override(language):
            response = self.get_response(request)
        patch_vary_headers(response, ("Cookie",))
        response.headers.setdefault("Content-Language", language)
        return response
