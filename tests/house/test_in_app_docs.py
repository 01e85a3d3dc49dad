"""The documentation in the product: complete, linked from the place of use, and without a dead end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.template import Context, Template, TemplateSyntaxError
from django.test import Client
from django.urls import reverse

from benchmarks.engine.probe_plan import BY_NAME
from benchmarks.engine.terms import Outcome
from benchmarks.models import RuntimeKind
from capacity.docs_index import PAGES, SECTIONS, found, place
from capacity.docs_page import Page
from tests.capacity import fixtures_judge as fx

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
USED = re.compile(r'{% help "([^"]+)" %}')
KINDS = re.compile(r'{% help [\w.]+ "(\w+)" %}')
FORMULAS = {"times", "amounts"}
EVERY = [page for section in SECTIONS for page in section.pages]


def slug(page: Page) -> str:
    return page.slug


def test_no_two_pages_have_one_address() -> None:
    assert len(PAGES) == len(EVERY)


def test_every_outcome_probe_check_and_runtime_has_a_page() -> None:
    row = fx.verdict(fx.complete()).rows[0]
    wanted = {
        *(f"outcome-{one.value.replace('_', '-')}" for one in Outcome),
        *(f"probe-{name.replace('_', '-')}" for name in BY_NAME),
        *(f"check-{check.key.replace('_', '-')}" for check in row.checks),
        *(kind.value for kind in RuntimeKind if kind != RuntimeKind.OTHER),
    }
    assert wanted - set(PAGES) == set()


@pytest.mark.parametrize("page", [p for s in SECTIONS if s.slug in FORMULAS for p in s.pages], ids=slug)
def test_every_figure_has_a_formula_and_a_unit(page: Page) -> None:
    assert (bool(page.formula), bool(page.unit)) == (True, True)


@pytest.mark.parametrize("page", EVERY, ids=slug)
def test_every_page_says_something_and_ends_its_sentences(page: Page) -> None:
    texts = [page.lead, *(text for _, text in page.rows), *page.remedy]
    assert [text for text in texts if not text.endswith((".", "?"))] == []


def test_every_related_page_exists_and_none_is_related_to_itself() -> None:
    assert [(p.slug, other) for p in EVERY for other in p.related if other not in PAGES or other == p.slug] == []


def test_every_question_mark_of_a_template_leads_to_a_page() -> None:
    used = {name: path.name for path in TEMPLATES for name in USED.findall(path.read_text(encoding="utf-8"))}
    assert {name: where for name, where in used.items() if name not in PAGES} == {}
    kinds = {kind for path in TEMPLATES for kind in KINDS.findall(path.read_text(encoding="utf-8"))}
    assert {kind for kind in kinds if not any(name.startswith(f"{kind}-") for name in PAGES)} == set()


def test_a_question_mark_to_nowhere_is_an_error_where_it_is_written() -> None:
    with pytest.raises(TemplateSyntaxError, match="no page 'no-such-word'"):
        Template('{% load docs %}{% help "no-such-word" %}').render(Context())


def test_a_question_mark_names_what_it_explains() -> None:
    html = Template('{% load docs %}{% help "ttft" %}{% help key "check" %}').render(Context({"key": "max_tokens"}))
    assert 'aria-label="What it means: TTFT: time to first token"' in html
    assert re.findall('href="([^"]+)"', html) == [
        reverse("docs-page", args=["ttft"]),
        reverse("docs-page", args=["check-max-tokens"]),
    ]


@pytest.mark.django_db
def test_every_page_is_in_the_index_and_every_link_of_every_page_leads_somewhere() -> None:
    client = Client()
    index = client.get(reverse("docs")).content.decode()
    addresses = {reverse("docs-page", args=[page.slug]) for page in EVERY}
    assert addresses - set(re.findall('href="([^"#]+)"', index)) == set()
    links = set()
    for address in sorted(addresses):
        answer = client.get(address)
        assert answer.status_code == 200
        links |= set(re.findall('href="(/docs/[^"#]*)', answer.content.decode()))
    assert links - addresses == {reverse("docs")}


@pytest.mark.django_db
def test_a_page_shows_its_formula_its_unit_and_its_neighbours() -> None:
    html = " ".join(Client().get(reverse("docs-page", args=["tpot"])).content.decode().split())
    here = place("tpot")
    assert here is not None
    assert here.before is not None
    assert here.after is not None
    assert "<code>(t_last − t_first) ÷ (output tokens − 1)</code>" in html
    assert "seconds for each token" in html
    assert f'href="{reverse("docs-page", args=[here.before.slug])}" rel="prev"' in html
    assert f'href="{reverse("docs-page", args=[here.after.slug])}" rel="next"' in html


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("inter-token", "tpot"),
        ("QUEUE cap", "queue-cap"),
        ("--parallel", "active-sequences"),
        ("429", "outcome-rejected"),
    ],
)
def test_the_search_finds_a_word_a_flag_and_a_status(words: str, first: str) -> None:
    assert first in {page.slug for section in found(words) for page in section.pages}


@pytest.mark.django_db
def test_a_search_without_a_find_says_what_to_do() -> None:
    html = Client().get(reverse("docs"), {"q": "no such thing at all"}).content.decode()
    assert "0 pages hold “no such thing at all”." in html
    assert "Try another word" in html


def test_a_per_cent_sign_is_held_to_its_number() -> None:
    html = Template("{% load docs %}{{ text|words }}").render(Context({"text": "At 5 % or more."}))
    assert html == "At 5\u00a0% or more."


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_per_cent_sign_is_held_to_its_number_in_every_template(path: Path) -> None:
    """A number, a no-break space, the sign; the space before the end of a template tag is none of it."""
    prose = re.sub(r"{%.*?%}", lambda tag: tag.group(0)[2:-2], path.read_text(encoding="utf-8"))
    assert re.findall(r"\d[ ]?%(?=[ .,;:)])", prose) == []
