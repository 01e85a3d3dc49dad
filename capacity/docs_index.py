"""All pages of the documentation by section, where each is found, and the search over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from benchmarks.models import RuntimeKind
from capacity.docs_cases import CASES
from capacity.docs_checks import CHECKS, OUTCOMES, PROBES
from capacity.docs_measures import AMOUNTS, TIMES
from capacity.docs_page import Page, Section
from capacity.docs_rubric import CRITERIA
from capacity.docs_terms import LOAD
from capacity.docs_work import WORK

RUNTIME_LEAD = _("Its own words beside ours, with where and when they were read.")


def _runtimes() -> tuple[Page, ...]:
    kinds = [kind for kind in RuntimeKind if kind != RuntimeKind.OTHER]
    return tuple(Page(slug=kind.value, title=str(kind.label), lead=RUNTIME_LEAD) for kind in kinds)


SECTIONS = (
    Section("load", _("Load, batching and queues"), _("What is offered, what runs and what waits."), _("What it means"),
        "activity", LOAD),
    Section("work", _("Measuring, deciding, stating"), _("The words of the work itself."), _("What it means"), "grid-3x3", WORK),
    Section("times", _("Times and percentiles"), _("Each with its formula and its unit."), _("How it is read"), "hourglass",
        TIMES),
    Section("amounts", _("Rates, shares, memory and energy"), _("Each with its formula and its unit."), _("How it is read"),
        "chart-column-increasing", AMOUNTS),
    Section("cases", _("Seven ways a capacity claim goes wrong"), _("Looked for by rule in every closed-loop grid."),
        _("How it is told"), "triangle-alert", CASES),
    Section("criteria", _("The criteria of the rubric"), _("Seventeen, from which the grade is computed."),
        _("What it asks"), "shield-check", CRITERIA),
    Section("checks", _("Checks of a window"), _("Asked of every window before anything is concluded from it."),
        _("When it fails"), "circle-check", CHECKS),
    Section("probes", _("Behaviour probes"), _("What a runtime does when it is not simply asked."), _("How it works"),
        "target", PROBES),
    Section("outcomes", _("Outcomes of a request"), _("Every request ends in exactly one of them."), _("What it means"),
        "info", OUTCOMES),
    Section("runtimes", _("Each runtime's own words"), RUNTIME_LEAD, _("Terms"), "cpu", _runtimes()),
)  # fmt: skip
PAGES = {page.slug: page for section in SECTIONS for page in section.pages}


@dataclass(frozen=True, slots=True)
class Place:
    """A page where it stands: its section and the neighbours in it."""

    page: Page
    section: Section
    before: Page | None
    after: Page | None
    related: tuple[Page, ...]


def place(slug: str) -> Place | None:
    """None where there is no such page."""
    for section in SECTIONS:
        for number, page in enumerate(section.pages):
            if page.slug == slug:
                return Place(
                    page=page, section=section,
                    before=section.pages[number - 1] if number else None,
                    after=section.pages[number + 1] if number + 1 < len(section.pages) else None,
                    related=tuple(PAGES[other] for other in page.related),
                )  # fmt: skip
    return None


def found(words: str) -> tuple[Section, ...]:
    """The sections with those of their pages that hold every word; all of them where nothing is asked."""
    wanted = words.casefold().split()
    if not wanted:
        return SECTIONS
    kept = (
        (section, tuple(page for page in section.pages if all(word in _text(page) for word in wanted)))
        for section in SECTIONS
    )
    return tuple(
        Section(section.slug, section.title, section.lead, section.told, section.icon, pages)
        for section, pages in kept
        if pages
    )


def _text(page: Page) -> str:
    """What is searched: as it is read in the language of the moment, and as it was written."""
    return " ".join(part for text in _texts(page) for part in (text, gettext(text))).casefold()


def _texts(page: Page) -> Iterator[str]:
    told = (page.title, page.lead, page.formula, page.unit, page.run, page.slug, *page.remedy)
    yield from (text for text in told if text)
    for label, text in page.rows:
        yield from (label, text)
