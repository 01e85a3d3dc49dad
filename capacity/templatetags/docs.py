"""Ways to the documentation from the place of use: `{% help "ttft" %}`, and texts of its pages in the reader's language."""

from __future__ import annotations

import re

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from capacity.docs_index import PAGES

register = template.Library()

PER_CENT = re.compile(r"(?<=\d) %")


@register.filter
def words(text: str) -> str:
    """A text of the documentation in the reader's language, its per cent signs held to their numbers."""
    return PER_CENT.sub("\u00a0%", gettext(text)) if text else ""


@register.simple_tag
def help(slug: str, kind: str = "") -> SafeString:
    """A small question mark that leads to the page of that name, or of a key of some kind, as in {% help key "check" %}. A
    page that is not there is an error where it is written."""
    name = f"{kind}-{slug.replace('_', '-')}" if kind else slug
    page = PAGES.get(name)
    if page is None:
        raise template.TemplateSyntaxError(f"the documentation has no page {name!r}")
    label = gettext("What it means: %(title)s") % {"title": words(page.title)}
    return format_html(
        '<a class="hr-help hr-noprint" href="{}" aria-label="{}" title="{}">?</a>',
        reverse("docs-page", args=[page.slug]), label, label,
    )  # fmt: skip
