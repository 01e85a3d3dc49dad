"""The fixed words of a statement stand in one table, which further languages answer name by name."""

from __future__ import annotations

import re
from string import Formatter

import pytest

from capacity.statement import figures, words
from capacity.statement.canonical import digest_of, payload_bytes
from capacity.statement.sentences import ENGLISH, LANGUAGES, TEXTS, Sentences, in_language
from tests.capacity.statement.documents import PAGES, document, with_confirmed

MIRROR = Sentences(
    language="ur",
    direction="rtl",
    texts={name: f"‹{text}›" for name, text in TEXTS.items()} | {"translated": "‹Not signed.›"},
)


def places(text: str) -> set[str]:
    return {field for _, field, _, _ in Formatter().parse(text) if field}


@pytest.mark.parametrize("language", list(LANGUAGES))
def test_every_language_says_every_sentence_with_the_places_of_english(language: str) -> None:
    texts = LANGUAGES[language].texts
    assert set(texts) == set(TEXTS), f"{language} lacks {sorted(set(TEXTS) - set(texts))}"
    assert [name for name, text in texts.items() if text and places(text) != places(TEXTS[name])] == []


def test_what_a_language_lacks_is_said_in_english() -> None:
    half = Sentences(language="ur", direction="rtl", texts={"result": "‹Result›"})
    assert (half("result"), half("limits"), half("key", name="one")) == (
        "‹Result›", "Operating limits", "Signed, Ed25519 key \u2068one\u2069",
    )  # fmt: skip
    assert in_language("xx") is ENGLISH


def test_what_is_filled_in_keeps_its_own_order_among_words_from_right_to_left() -> None:
    urdu = in_language("ur")
    assert urdu("table.limit", limit="22 GiB") == "حد \u206822 GiB\u2069"
    assert urdu("lead.inside", objectives="x", interval="").count("\u2068") == 1, (
        "nothing is kept together round nothing"
    )
    assert ENGLISH("table.limit", limit="22 GiB") == "limit 22 GiB"


def test_urdu_is_urdu_and_says_that_nobody_reviewed_it() -> None:
    plain = {name for name, text in LANGUAGES["ur"].texts.items() if not re.search("[\u0600-\u06ff]", text)}
    assert {name for name in plain if re.search("[A-Za-z]{2}", re.sub("{.*?}", "", TEXTS[name]))} <= {"foot"}
    assert "مادری زبان" in in_language("ur")("translated")


@pytest.mark.parametrize("name", list(PAGES))
def test_every_fixed_word_of_a_page_comes_from_the_table(name: str) -> None:
    """A page in a made-up language keeps English only where the signed document is quoted."""
    made = words.page(PAGES[name](), MIRROR)
    fixed = [made.label, made.result_heading, made.not_users, made.scan, made.annex_heading, made.covers, made.dates]
    fixed += [block.heading for block in (*made.blocks, *made.paragraphs, *made.annexes)]
    fixed += [head.text for block in made.annexes if block.table for head in block.table.head if head.text != "sha256"]
    fixed += [block.table.caption for block in made.annexes if block.table and block.table.caption]
    assert [text for text in fixed if "‹" not in text] == []
    drawn = re.findall(r">([^<>]*[A-Za-z]{3}[^<>]*)</text>", figures.charts_svg(PAGES[name](), MIRROR))
    assert [text for text in drawn if "‹" not in text] == []


def test_a_translated_page_says_so_first_and_is_of_the_same_signed_bytes() -> None:
    full = with_confirmed()
    there, here = words.page(full, MIRROR), words.page(full)
    assert (there.language, there.direction, there.notices[0]) == ("ur", "rtl", "‹Not signed.›")
    assert (here.language, here.direction) == ("en", "ltr")
    assert (there.digest_groups, there.verify_url) == (here.digest_groups, here.verify_url)


def test_a_statement_of_before_the_further_fields_has_the_bytes_that_it_had() -> None:
    digest = "c3da07dee4f036cc48b39cfe4e6a5d076ccf24bc3e95aaa1d022df79926911e1"
    assert digest_of(payload_bytes(document())) == digest
