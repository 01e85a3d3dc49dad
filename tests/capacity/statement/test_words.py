"""The words of a statement, and that the PDF says them all."""

from __future__ import annotations

import io
import re
from typing import Any

import msgspec
import pytest
from pypdf import PdfReader

from capacity.statement import pdf, phrases, sentences, words
from capacity.statement.canonical import digest_of, payload_bytes
from capacity.statement.document import Document, Setting, Zone
from capacity.statement.issue import SignedStatement
from capacity.statement.keys import KeySet
from capacity.statement.phrases import GIB, count, day, objectives, per_minute, seconds, setting_phrase, span
from capacity.statement.words import page, result_sentence
from tests.capacity.statement.documents import CONDITIONS, ISSUED, NONE_SAFE, PAGES, document, rows

PKT = Zone(name="PKT", offset_minutes=300)


def lead(doc: Document) -> str:
    return "".join(span.text for span in page(doc).lead)


def test_the_result_sentence_says_the_rate_at_the_setting() -> None:
    assert result_sentence(document()) == (
        "With four active sequences this configuration finished 57.5 requests a minute inside all three latency "
        "objectives (95 % CI 55.8 to 59.3), for the request mix below."
    )
    assert [span.text for span in page(document()).lead if span.strong] == ["57.5 requests a minute"]


def test_right_after_the_result_it_says_that_this_is_not_a_number_of_users() -> None:
    fields = list(words.Page.__struct_fields__)
    assert fields.index("not_users") == fields.index("lead") + 1
    assert page(document()).not_users == "This is not a number of users."
    assert page(document()).not_users_rest == (
        "It says nothing about a different request mix, model, runtime, host or room. "
        "Its times were taken with a fixed number in flight, where no queue forms. "
        "Eight active sequences were tested and failed every objective."
    )


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (49.2, [("Plan for at most", "49.2 successful requests a minute")]),
        (30.0, [
            ("Left by these reserves", "49.2 successful requests a minute"),
            ("Plan for at most", "30.0 successful requests a minute: the lower bound of what was measured, what the queue holds, "
             "or what was confirmed is less"),
        ]),
    ],
)  # fmt: skip
def test_the_sum_of_the_headroom_can_be_followed(stated: float, said: list[tuple[str, str]]) -> None:
    made = document()
    assert made.result is not None
    doc = msgspec.structs.replace(made, result=msgspec.structs.replace(made.result, stated_per_minute=stated))
    block = next(one for one in page(doc).annexes if one.heading == "Headroom")
    pairs = [(pair.label, pair.text) for pair in block.pairs]
    assert pairs[-len(said) :] == said
    assert pairs[-len(said) - 1][0] == "Variance"


def test_no_safe_setting_is_a_result_in_words() -> None:
    none = document(chosen=None)
    assert (
        lead(none)
        == result_sentence(none)
        == (
            "No setting of 1, 2, 4 and 8 active sequences was found safe for the request mix below: each was tested and failed. "
            "This statement gives no rate and no capacity."
        )
    )
    (stands_out,) = [span.text for span in page(none).lead if span.strong]
    assert stands_out == "No setting of 1, 2, 4 and 8 active sequences was found safe"
    assert page(none).not_users == "This is not a number of users."
    why, change, _ends = page(none).paragraphs
    assert (why.heading, why.paragraphs) == (
        "Why no setting is safe",
        (*NONE_SAFE.reasons, "All reasons of every setting are in the annex."),
    )
    assert (change.heading, change.paragraphs) == ("What to change before measuring again", NONE_SAFE.remedies)
    said = page(none).annexes
    assert said[1].items == tuple(f"{row.setting}: {row.reason}" for row in none.rows)
    assert said[2].paragraphs == ("No setting is stated, so no headroom is computed.",)
    assert "approved" not in str(page(none).table.lines)


def test_of_one_setting_and_of_settings_that_were_not_settled_it_says_so() -> None:
    one = document(chosen=None, settings=1)
    assert lead(one) == (
        "The only setting tested, one active sequence, was not found safe for the request mix below: it was tested and failed. "
        "This statement gives no rate and no capacity."
    )
    table = document(chosen=None).rows
    left = msgspec.structs.replace(table[3], verdict="not tested")
    assert "1, 2 and 4 failed, and 8 was not tested enough to say" in lead(
        document(chosen=None, rows=(*table[:3], left))
    )


def test_the_failing_setting_stays_in_the_table_and_is_marked() -> None:
    table = page(document()).table
    assert [line.cells[0].text for line in table.lines] == ["1", "2", "4, approved", "8"]
    assert [line.cells[-1].text for line in table.lines] == ["Holds", "Holds", "Holds", "Fails"]
    assert [plain(cell.text) for cell in table.lines[3].cells if cell.past] == [
        "6.6 s",
        "9.9 s",
        "26.1 s",
        "22.8 GiB",
        "Fails",
    ]
    assert [line.chosen for line in table.lines] == [False, False, True, False]


def test_memory_that_does_not_apply_has_no_column_and_is_said() -> None:
    words_of = page(document(memory=False))
    assert "Peak VRAM" not in [head.text for head in words_of.table.head]
    assert words_of.memory_note == "Peak VRAM: not applicable. This host has no NVIDIA GPU; peak RAM was 1.2 GiB."


def test_unknown_values_are_words_and_never_zero() -> None:
    table = rows()
    tails = (
        msgspec.structs.replace(table[3].tails[0], value_s=None, bound_s=None, state="among failures"),
        msgspec.structs.replace(table[3].tails[1], value_s=None, bound_s=None, state="too few requests", holds=None),
        msgspec.structs.replace(table[3].tails[2], indicative=True, holds=None),
    )
    last = msgspec.structs.replace(
        table[3], successful_per_minute=None, all_per_minute=None, tails=tails, peak_vram_bytes="not reported"
    )
    line = page(document(rows=(*table[:3], last))).table.lines[3]
    assert [plain(cell.text) for cell in line.cells] == [
        "8", "not recorded", "not recorded", "among failures", "too few requests", "26.1 s †", "not reported", "Fails",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({"demonstration": True}, ("Demonstration",)),
        ({"demonstration": True, "simulated": True}, ("Demonstration", "Simulated")),
        ({"demonstration": False}, ()),
    ],
)
def test_demonstration_and_simulation_are_labelled(changes: dict[str, Any], labels: tuple[str, ...]) -> None:
    assert page(document(**changes)).labels == labels
    assert len(page(document(**changes)).notices) == len(labels)


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "its latency objective"), (2, "both latency objectives"), (4, "all four latency objectives")],
)
def test_objectives_are_counted_in_words(number: int, text: str) -> None:
    assert objectives(number) == text


@pytest.mark.parametrize(
    ("number", "term", "text"),
    [
        (1, "active sequences", "one active sequence"),
        (1, "requests in flight", "one request in flight"),
        (12, "active sequences", "twelve active sequences"),
        (13, "requests in flight", "13 requests in flight"),
    ],
)
def test_the_setting_is_named_as_given(number: int, term: Any, text: str) -> None:
    assert setting_phrase(number, Setting(value=number, term=term)) == text


TIMES = [
    (0.0042, "4 ms"),
    (0.0999, "100 ms"),
    (0.1, "0.10 s"),
    (0.999, "1.00 s"),
    (1.0, "1.0 s"),
    (1234.5, "1,234.5 s"),
]


@pytest.mark.parametrize(("value_s", "text"), TIMES)
def test_times_carry_their_unit(value_s: float, text: str) -> None:
    assert plain(seconds(value_s)) == text


def test_dates_are_read_in_the_statements_zone() -> None:
    assert day(ISSUED, PKT) == "16 Nov 2026"
    assert span(CONDITIONS.started_at, CONDITIONS.ended_at, PKT) == "14 Nov 2026, 10:02 to 11:47 PKT"
    assert span(CONDITIONS.started_at, ISSUED, Zone()) == "14 Nov 2026, 05:02 to 16 Nov 2026, 04:30 UTC"
    assert (count(13), per_minute(None), GIB) == ("13", "not recorded", 2**30)


def texts(value: object) -> list[str]:
    """Every string in the words, in reading order."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for part in value.values() for text in texts(part)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in texts(part)]
    return []


def plain(text: str) -> str:
    """With ordinary spaces between numbers and their units."""
    return text.replace(phrases.SPACE, " ")


def squeezed(text: str) -> str:
    return re.sub(r"[\s\u200b\u00ad]", "", text)


def pdf_text(pdf: bytes) -> str:
    return squeezed("".join(one.extract_text() for one in PdfReader(io.BytesIO(pdf)).pages))


def written(full: Document) -> list[str]:
    """Every text of the page that is set in letters: without the chart's alternative text, the address behind the QR code,
    and how columns and language are set."""
    built = msgspec.to_builtins(page(full))
    said = {
        name: part for name, part in built.items() if name not in ("chart_alt", "verify_url", "language", "direction")
    }
    return texts(without_kinds(said))


def without_kinds(value: object) -> object:
    if isinstance(value, dict):
        return {name: without_kinds(part) for name, part in value.items() if name != "kind"}
    return [without_kinds(part) for part in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("name", list(PAGES))
def test_the_pdf_says_every_word_of_the_page_and_nothing_else(name: str) -> None:
    full = PAGES[name]()
    pages = [one.extract_text() for one in PdfReader(io.BytesIO(pdf.render(full, envelope=b"{}"))).pages]
    said = squeezed("".join(pages))
    known = written(full)
    assert [text for text in known if squeezed(text) not in said] == []
    drawn = [text for key, text in sentences.TEXTS.items() if key.startswith("chart.")]
    allowed = squeezed(" ".join([*known, *drawn])) + "DEMONSTRATION" + "SIMULATED" + "Pageof"
    letters = [word for text in pages for word in re.findall(r"[A-Za-z]{2,}", text)]
    assert [word for word in letters if word not in allowed] == []


def test_the_printed_digest_is_that_of_the_signed_payload(signed: SignedStatement, demonstration_keys: KeySet) -> None:
    full = msgspec.structs.replace(document(), key_name=demonstration_keys.entry.name)
    assert signed.digest == digest_of(payload_bytes(full))
    assert signed.digest in pdf_text(signed.pdf)
