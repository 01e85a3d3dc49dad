"""The documentation inside the product: what every word, figure, check and verdict of its pages means."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchmarks.access import public
from benchmarks.runtimes.terms import terms_of
from capacity.docs_index import PAGES, found, place

LONGEST_QUESTION = 100


@public
@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    asked = request.GET.get("q", "").strip()[:LONGEST_QUESTION]
    sections = found(asked)
    count = sum(len(section.pages) for section in sections)
    return render(
        request, "capacity/docs.html", {"sections": sections, "asked": asked, "count": count, "all": len(PAGES)}
    )


@public
@require_safe
def docs_page(request: HttpRequest, slug: str) -> HttpResponse:
    here = place(slug)
    if here is None:
        raise Http404("There is no such page.")
    runtime = here.section.slug == "runtimes"
    name = "capacity/docs_page.html" if runtime else "capacity/docs_case.html"
    return render(request, name, {"here": here, "page": here.page, "terms": terms_of(slug) if runtime else ()})
