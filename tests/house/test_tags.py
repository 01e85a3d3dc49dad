"""Template tags: what is not known reads so, and numbers carry the figures that mean something."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from typing import Any

import pytest
from django import forms
from django.template import Context, Template, TemplateSyntaxError
from django.test import RequestFactory
from django.utils import timezone

from benchmarks.models import Role
from benchmarks.templatetags import headroom

MISSING = "not recorded"
NBSP = "\u00a0"


def render(source: str, **context: Any) -> str:
    return Template("{% load headroom %}" + source).render(Context(context))


@pytest.mark.parametrize("name", ["f0", "f1", "f2", "f3", "pct", "seconds", "gib", "when", "since", "missing"])
@pytest.mark.parametrize("value", [None, ""])
def test_a_value_that_is_not_known_reads_not_recorded_and_never_zero(name: str, value: object) -> None:
    assert getattr(headroom, name)(value) == MISSING


@pytest.mark.parametrize("name", ["f0", "f1", "f2", "f3", "pct", "seconds", "gib"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_reads_not_recorded(name: str, value: float) -> None:
    assert getattr(headroom, name)(value) == MISSING


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("f0", 1234.5, "1,234"), ("f0", 0, "0"), ("f1", 57.46, "57.5"), ("f2", 0.815, "0.81"), ("f2", 1.005e6, "1,005,000.00"),
        ("f3", -0.0004, "-0.000"), ("pct", 0.985, "98.5\u00a0%"), ("pct", 0, "0.0\u00a0%"), ("pct", 1, "100.0\u00a0%"),
        ("seconds", 0, f"0.00{NBSP}s"), ("seconds", 0.0434, f"0.043{NBSP}s"), ("seconds", 0.0999, f"0.100{NBSP}s"),
        ("seconds", 0.1, f"0.10{NBSP}s"), ("seconds", 1.234, f"1.23{NBSP}s"), ("seconds", 9.99, f"9.99{NBSP}s"),
        ("seconds", 10, f"10.0{NBSP}s"), ("seconds", 99.9, f"99.9{NBSP}s"), ("seconds", 100, f"100{NBSP}s"),
        ("seconds", 4500, f"4,500{NBSP}s"),
        ("gib", 0, f"0.0{NBSP}GiB"), ("gib", 2**30 - 2**20, f"0.999{NBSP}GiB"), ("gib", 2**30, f"1.0{NBSP}GiB"),
        ("gib", 17609365913, f"16.4{NBSP}GiB"),
        ("missing", 0, 0), ("missing", "x", "x"),
    ],
)  # fmt: skip
def test_numbers_keep_the_figures_that_mean_something(name: str, value: float, words: object) -> None:
    assert getattr(headroom, name)(value) == words


@pytest.mark.parametrize(
    ("ratio", "step"),
    [
        (0, "q0"), (0.5, "q0"), (0.5001, "q1"), (0.7, "q1"), (0.71, "q2"), (0.85, "q2"), (0.86, "q3"), (1.0, "q3"),
        (1.0001, "q4"), (1.2, "q4"), (1.21, "q5"), (1.45, "q5"), (1.46, "q6"), (40, "q6"), (None, "qn"), (math.nan, "qn"),
    ],
)  # fmt: skip
def test_a_ratio_gets_the_step_of_the_scale_whose_upper_end_it_does_not_pass(ratio: float | None, step: str) -> None:
    assert headroom.level(ratio) == step


def test_a_moment_is_written_in_the_time_zone_of_the_site_and_names_it() -> None:
    moment = dt.datetime(2026, 11, 14, 10, 2, tzinfo=dt.UTC)
    assert headroom.when(moment) == "14 Nov 2026, 10:02 UTC"
    with timezone.override("Asia/Karachi"):
        assert headroom.when(moment) == "14 Nov 2026, 15:02 PKT"
    assert headroom.when(dt.date(2026, 11, 14)) == "14 Nov 2026"


@pytest.mark.parametrize(
    ("value", "top", "limit", "width", "mark", "past"),
    [
        (5, 10, None, "50.0", None, False), (8, 10, 8, "80.0", "80.0", False), (8.1, 10, 8, "81.0", "80.0", True),
        (12, 10, 8, "100.0", "80.0", True), (-1, 10, 8, "0.0", "80.0", False), (0, 10, 0, "0.0", "0.0", False),
    ],
)  # fmt: skip
def test_a_bar_is_red_only_past_its_limit_and_never_longer_than_its_track(
    value: float, top: float, limit: float | None, width: str, mark: str | None, past: bool
) -> None:
    html = headroom.bar(value, top, limit)
    assert f'<i style="inline-size:{width}%"></i>' in html
    assert re.findall(r"inset-inline-start:([\d.]+)%", html) == ([mark] if mark else [])
    assert ("hr-bar-past" in html) is past


@pytest.mark.parametrize(("value", "top"), [(None, 10), ("", 10), (5, None), (5, 0), (math.nan, 10)])
def test_a_bar_without_a_value_or_a_scale_is_empty_and_says_so(value: object, top: object) -> None:
    html = headroom.bar(value, top, 8)
    assert 'aria-label="not recorded"' in html
    assert "<i" not in html


def test_a_bar_says_its_value_and_limit_in_words_unless_told_others() -> None:
    assert 'aria-label="16.4 of 22"' in headroom.bar(16.4, 24, 22)
    assert 'aria-label="16.4 of 24"' in headroom.bar(16.4, 24)
    assert 'aria-label="Peak &lt;VRAM&gt;"' in headroom.bar(16.4, 24, 22, "Peak <VRAM>")


def test_a_pill_has_colour_icon_and_word_and_escapes_the_word() -> None:
    html = headroom.pill("bad", "<b>Found</b>")
    assert "hr-pill-bad" in html
    assert "icons.svg#x" in html
    assert "&lt;b&gt;Found&lt;/b&gt;" in html


def test_an_icon_that_is_not_in_the_sprite_is_an_error_where_it_is_written() -> None:
    with pytest.raises(TemplateSyntaxError, match="no icon 'cat'"):
        render('{% icon "cat" %}')
    with pytest.raises(TemplateSyntaxError, match="no pill of kind 'great'"):
        render('{% pill "great" "x" %}')


def test_a_glyph_has_one_square_a_cell_and_a_label() -> None:
    html = headroom.glyph("q0 q6 qn now", "4 cells", 2)
    assert re.findall(r'<i class="([^"]+)">', html) == ["hr-q0", "hr-q6", "hr-qn", "hr-now"]
    assert 'aria-label="4 cells"' in html
    assert "--hr-columns:2" in html
    assert headroom.glyph(["q0", "q6", "qn", "now"], "4 cells", 2) == html


def test_a_figure_cannot_close_its_own_script_and_is_still_the_same_json() -> None:
    figure = {"layout": {"title": "</script><script>alert(1)</script> & more"}}
    html = headroom.figure_json("fig", json.dumps(figure))
    inner = html.removeprefix('<script type="application/json" id="fig">').removesuffix("</script>")
    assert "<" not in inner
    assert json.loads(inner) == figure


@pytest.mark.parametrize(
    ("name", "letters"),
    [
        ("Ayesha Khan", "AK"),
        ("operator", "O"),
        ("host_owner", "HO"),
        ("ana maria de souza", "AS"),
        ("", "?"),
        ("a.b", "AB"),
    ],
)
def test_initials_are_at_most_two(name: str, letters: str) -> None:
    assert headroom.initials(name) == letters


def test_roles_are_named_in_the_order_of_the_role_list() -> None:
    assert headroom.role_names(frozenset({Role.SIGNER, Role.VIEWER, Role.OPERATOR})) == "Viewer, Operator, Signer"
    assert headroom.role_names(frozenset()) == ""


class Sample(forms.Form):
    """One field of each layout of the field template."""

    vram = forms.IntegerField(
        label="VRAM",
        help_text="24 GiB on this card",
        widget=forms.NumberInput(attrs={"data-unit": "GiB", "data-span": "t"}),
    )
    notes = forms.CharField(required=False)
    cancel = forms.BooleanField(label="Cancellation")
    power = forms.ChoiceField(choices=[("m", "Mains"), ("g", "Generator")], widget=forms.RadioSelect)


def test_a_field_has_its_label_unit_hint_and_error_joined_to_the_input() -> None:
    html = str(Sample({"vram": "much"})["vram"].as_field_group())
    assert '<label for="id_vram">VRAM</label>' in html
    assert "<span>GiB</span>" in html
    assert "hr-f-t" in html
    assert 'aria-invalid="true"' in html
    assert set(re.findall(r'id="(id_vram_\w+)"', html)) == {"id_vram_helptext", "id_vram_error"}
    assert re.findall(r'<input[^>]*aria-describedby="([^"]+)"', html) == ["id_vram_helptext id_vram_error"]


def test_a_field_that_may_stay_empty_says_so_and_a_set_of_choices_is_a_fieldset() -> None:
    form = Sample()
    assert "optional" in str(form["notes"].as_field_group())
    assert "<fieldset" in str(form["power"].as_field_group())
    assert "<legend>Power</legend>" in str(form["power"].as_field_group())
    assert "hr-ck" in str(form["cancel"].as_field_group())


def test_every_page_marks_where_it_is_in_the_side_bar() -> None:
    request = RequestFactory().get("/")
    request.resolver_match = type("Match", (), {"url_name": "runtime-detail"})()
    line = '{% nav_item "runtime-list" "Runtimes" "cpu" "runtime- endpoint-" %}{% nav_item "overview" "Overview" "house" %}'
    assert re.findall(r'href="([^"]+)" aria-current="page"', render(line, request=request)) == ["/runtimes/"]
    assert "aria-current" not in render(line)
