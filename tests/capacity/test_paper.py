"""The statement on screen says what the PDF says, word for word: both are made of the same page of words."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from capacity.statement import words
from capacity.statement.figures import charts_svg
from capacity.statement.pdf import qr_svg
from tests.capacity.statement.documents import PAGES
from tests.capacity.statement.test_words import squeezed, written


def article(name: str) -> str:
    document = PAGES[name]()
    page = words.page(document)
    context = {
        "page": page, "charts": mark_safe(charts_svg(document)),
        "charts_narrow": mark_safe(charts_svg(document, narrow=True)), "qr": mark_safe(qr_svg(page.verify_url)),
    }  # fmt: skip
    return render_to_string("capacity/parts/paper.html", context)


@pytest.mark.parametrize("name", list(PAGES))
def test_the_screen_says_every_word_of_the_page_and_nothing_else(name: str) -> None:
    html = re.sub(r"<svg.*?</svg>", "", article(name), flags=re.S)
    said = unescape(re.sub(r"<[^>]+>", " ", html))
    known = written(PAGES[name]())
    assert [text for text in known if squeezed(text) not in squeezed(said)] == []
    allowed = squeezed(" ".join(known))
    assert [word for word in re.findall(r"[A-Za-z]{2,}", said) if word not in allowed] == []


def test_the_charts_are_said_in_words_and_marks_differ_by_form() -> None:
    html = article("confirmed")
    assert 'aria-label="Requests a minute against p95 over objective by active sequences.' in html
    assert "4 confirmed: 49.1 successful a minute at 0.81 times the objective" in html
    wide = html[html.index("hr-paper-wide") : html.index("hr-paper-narrow")]
    assert (wide.count("<polygon"), wide.count('r="3.2" fill="#ffffff"'), wide.count("url(#h)")) == (1, 1, 1)
    assert "url(#hn)" in html


def test_each_cell_of_a_table_carries_its_columns_name_for_narrow_screens() -> None:
    html = article("normal")
    assert 'data-l="Short p95 limit 4\u00a0s"' in html
    assert html.count('data-l="Peak VRAM limit 22\u00a0GiB"') == 4
