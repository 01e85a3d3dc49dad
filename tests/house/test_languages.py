"""Languages: every visible text goes through gettext, the choice is the reader's, and what is not reviewed says so."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import polib
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import translation

from benchmarks.models import Role
from capacity import approvals, pseudo
from capacity.models import Choice
from capacity.statement.sentences import LANGUAGES, TEXTS
from tests import factories
from tests.capacity import stored
from tests.capacity import synthetic as made
from tests.capacity.test_approvals import Office
from tests.capacity.test_approvals import keys as keys
from tests.house.test_access import ARGUMENTS, TABLE, address
from tests.house.test_access import world as world
from tests.house.untranslated import data_names, data_words, evidence_words, untranslated

pytestmark = pytest.mark.django_db

NAMES = {
    "headroom": "the product", "pseudo": "the language itself", "english": "a language by its own name",
    "utc": "a time zone", "gib": "a unit", "min": "a unit", "offered": "the axis of a grid, as its cells are called",
    "csv": "a file format", "json": "a file format", "svg": "a file format", "pdf": "a file format",
}  # fmt: skip
"""Words that read the same in every language, with the reason."""


def pages() -> list[str]:
    """The addresses of pages; those of files are English in every language."""
    files = {"fmt", "kind"}
    return [
        name for name in TABLE if not files & set(ARGUMENTS.get(name, ())) and not name.endswith(("-chart", "-file"))
    ]


@pytest.fixture
def pseudo_language(settings: Any) -> str:
    settings.LANGUAGES = [*settings.LANGUAGES, (pseudo.CODE, "Pseudo")]
    pseudo.install()
    return pseudo.CODE


def reader(language: str, user: User | None = None) -> Client:
    client = Client()
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    if user is not None:
        client.force_login(user)
    return client


def test_every_visible_text_of_every_page_went_through_gettext(world: dict[str, Any], pseudo_language: str) -> None:
    stored.measure(factories.make_grid(world["runtime"], limits=made.limits()))
    client = reader(pseudo_language, factories.make_user(world["team"], *Role, username="everything"))
    known, words = (*data_words(), *evidence_words()), frozenset(NAMES) | data_names()
    found, seen = {}, 0
    for name in pages():
        answer = client.get(address(name, world))
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
            seen += 1
            found[name] = untranslated(answer.content.decode(), known, words)
    assert {name: texts for name, texts in found.items() if texts} == {}
    assert seen > 25


def test_the_result_of_a_measured_grid_and_its_cells_too(world: dict[str, Any], pseudo_language: str) -> None:
    grid = stored.measure(factories.make_grid(world["runtime"], limits=made.limits()))
    client = reader(pseudo_language, factories.make_user(world["team"], *Role, username="everything"))
    known, words = (*data_words(), *evidence_words()), frozenset(NAMES) | data_names()
    cell = grid.cells.first()
    assert cell is not None
    for path in (grid.get_absolute_url(), reverse("cell-detail", args=[grid.pk, cell.pk])):
        assert untranslated(client.get(path).content.decode(), known, words) == []


def test_text_that_was_never_offered_to_a_translator_is_found() -> None:
    html = f"<html lang='en-xa'><p>{pseudo.pseudo('Overview')}</p><p title='Plain'>Not wrapped</p><code>as it is</code></html>"
    assert untranslated(html, (), frozenset()) == ["not wrapped", "plain"]


def test_a_pseudo_text_keeps_its_places_and_its_tags() -> None:
    text = pseudo.pseudo('%(n)s of <b class="x">{total}</b>&nbsp;%%')
    for kept in ("%(n)s", '<b class="x">', "{total}", "</b>", "&nbsp;", "%%"):
        assert kept in text


def test_the_reader_chooses_the_language_and_the_choice_is_kept() -> None:
    client = Client()
    answer = client.post(reverse("set-language"), {"language": "ur", "next": reverse("docs")})
    assert (answer.status_code, answer["Location"]) == (302, reverse("docs"))
    shown = client.get(reverse("docs"))
    html = " ".join(shown.content.decode().split())
    assert '<html lang="ur" dir="rtl"' in html
    assert shown["Content-Language"] == "ur"
    assert "not reviewed by a native reader" in html
    assert "اس ترجمے کو کسی مادری زبان والے قاری نے نہیں جانچا" in html


def test_a_browser_that_asks_for_urdu_gets_english_until_its_reader_chooses() -> None:
    html = Client().get(reverse("docs"), headers={"accept-language": "ur"}).content.decode()
    assert 'lang="en"' in html
    assert "not reviewed" not in html


def test_a_language_that_the_site_does_not_have_is_english() -> None:
    assert 'lang="en"' in reader(pseudo.CODE).get(reverse("docs")).content.decode()


def test_a_statement_is_shown_in_urdu_and_its_files_stay_as_signed(world: dict[str, Any]) -> None:
    viewer = factories.make_user(world["team"], Role.VIEWER, username="qari")
    client, number = reader("ur", viewer), world["statement"].number
    html = client.get(reverse("statement-detail", args=[number])).content.decode()
    assert 'lang="ur" dir="rtl"' in html.partition("<article")[2].partition(">")[0]
    assert "یہ صارفین کی تعداد نہیں ہے۔" in html
    answer = client.get(reverse("statement-json", args=[number]))
    assert answer["Content-Language"] == "en"
    assert b"".join(answer) == bytes(world["statement"].envelope)


def test_what_is_recorded_and_signed_is_english_whoever_does_it(pseudo_language: str, keys: Path) -> None:
    office = Office()
    with translation.override(pseudo_language):
        statement = approvals.issue_statement(choice=office.approved(), by=office.signer, title="One", valid_days=1)
    assert pseudo.OPENING not in bytes(statement.envelope).decode()
    assert pseudo.OPENING not in str(Choice.objects.values_list("verdict", flat=True).get())


def test_every_compiled_file_holds_what_its_translation_says() -> None:
    for path in sorted((Path(settings.BASE_DIR) / "locale").rglob("*.po")):
        texts = {
            entry.msgid: entry.msgstr
            for entry in polib.pofile(str(path)).translated_entries()
            if not entry.msgid_plural
        }
        kept = polib.mofile(str(path.with_suffix(".mo")))
        assert {entry.msgid: entry.msgstr for entry in kept if not entry.msgid_plural} == texts, "run make messages"


def test_every_translation_of_a_statement_has_the_places_of_the_english_sentence() -> None:
    def places(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    for language in LANGUAGES.values():
        assert {name for name, text in language.texts.items() if places(text) != places(TEXTS[name])} == set()
