"""One way for every list: filter, sort, page, choose columns, hand out as CSV or JSON. All of it stands in the query string.

A list is a ListTable (what a row shows, and what it is called in a file) and a ListFilter. `answer` reads the address, says
what of it is not understood, and shows one page of the rows, or hands out exactly the filtered ones, of all pages.
In scope: lists. Not in scope: who may see which rows; the caller gives the rows of one's own team.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import islice
from math import isfinite
from typing import Any, ClassVar

import django_filters
import django_tables2 as tables
from django import forms
from django.core.paginator import Page, Paginator
from django.db.models import F, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict, StreamingHttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_tables2.rows import BoundRow

from benchmarks.records.spreadsheet import Value, escaped
from benchmarks.templatetags.headroom import missing, when

FILTERS_IN_SIGHT = 5
PER_PAGE = 25
CHUNK = 200
FORMATS = ("csv", "json")
UNPROCESSABLE = 422


class Col(tables.Column):
    """A column. `num` sets its figures to the end, a `lead` is always shown, `css` names a narrow cell without a word above
    it. Rows whose value is not known come last whichever way it is sorted, and
    rows that are alike in it come newest first, so that no page shows a row twice."""

    def __init__(
        self, verbose_name: object = None, *, num: bool = False, lead: bool = False, css: str = "", **options: Any
    ) -> None:
        self.num, self.lead, self.css = num, lead, css
        super().__init__(verbose_name, **{"empty_values": (), **options})

    def render(self, value: object) -> object:
        return missing(value)

    def order(self, queryset: QuerySet[Any], is_descending: bool) -> tuple[QuerySet[Any], bool]:
        keys = [F(str(name)) for name in self.order_by or (self.accessor or self.called,)]
        ordered = [key.desc(nulls_last=True) if is_descending else key.asc(nulls_last=True) for key in keys]
        return queryset.order_by(*ordered, "-pk"), True

    called = ""
    """Its name in the table."""


class When(Col):
    """A moment; the newest first at the first click."""

    def __init__(self, verbose_name: object = None, **options: Any) -> None:
        super().__init__(verbose_name, **{"initial_sort_descending": True, **options})

    def render(self, value: object) -> object:
        return format_html('<span class="hr-muted hr-nowrap">{}</span>', when(value))


class ListTable(tables.Table):
    """What all tables of lists share.

    `stem` names the file and the JSON's list. `first` is the order of the plain address, `hidden` are columns that are shown
    only when they are chosen, `out` are the columns of the file: stable names with their unit, and where each value is."""

    stem: ClassVar[str]
    first: ClassVar[str]
    hidden: ClassVar[tuple[str, ...]] = ()
    out: ClassVar[dict[str, str | Callable[[Any], object]]]

    class Meta:
        order_by_field = "sort"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, column in cls.base_columns.items():
            column.called = name

    def get_column_class_names(self, classes_set: set[str], bound_column: Any) -> set[str]:
        del bound_column
        return classes_set

    def prepare(self, rows: Sequence[Any]) -> None:
        """What the rows of one page, or one piece of a file, need beside themselves."""

    def names(self) -> list[str]:
        """The columns of a file, also of one without a row."""
        return list(self.out)

    def row(self, record: Any) -> dict[str, Value]:
        """One row of a file."""
        return {
            name: plain(where(record) if callable(where) else at(record, where)) for name, where in self.out.items()
        }


class ListFilter(django_filters.FilterSet):
    """The filters of one list; `text_in` says where the free text is looked for."""

    text_in: ClassVar[tuple[str, ...]] = ("name", "slug")
    filters: dict[str, Any]
    q = django_filters.CharFilter(
        method="with_text",
        label=gettext_lazy("Text"),
        max_length=120,
        widget=forms.TextInput(attrs={"type": "search"}),
    )

    field_order: ClassVar[tuple[str, ...]] = ()
    """The order of the fields, where it is not that of the class."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.field_order:
            found: dict[str, Any] = self.filters
            self.filters = {name: found[name] for name in self.field_order}

    def with_text(self, rows: QuerySet[Any], _name: str, value: str) -> QuerySet[Any]:
        found = Q()
        for place in self.text_in:
            found |= Q(**{f"{place}__icontains": value})
        return rows.filter(found)

    def offer(self, name: str, choices: Iterable[tuple[object, object]]) -> None:
        """What a filter of this team's own values offers."""
        self.filters[name].extra["choices"] = list(choices)


def choice(label: object, **options: Any) -> django_filters.ChoiceFilter:
    """A filter with one of some values; empty lets all through."""
    return django_filters.ChoiceFilter(label=label, empty_label=gettext_lazy("Any"), **{"choices": (), **options})


class DayFilter(django_filters.DateFilter):
    """From the beginning of a day, or with `lt` to its end, in the site's time zone; as bounds, so that an index serves."""

    def filter(self, rows: QuerySet[Any], value: date | None) -> QuerySet[Any]:
        if value is None:
            return rows
        first = datetime.combine(value, time.min) + timedelta(days=self.lookup_expr == "lt")
        return rows.filter(**{f"{self.field_name}__{self.lookup_expr}": timezone.make_aware(first)})


def day(label: object, *, field_name: str, until: bool = False) -> DayFilter:
    """A filter by a day, as the browser's own date field writes it."""
    widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
    return DayFilter(label=label, widget=widget, field_name=field_name, lookup_expr="lt" if until else "gte")


@dataclass(frozen=True, slots=True)
class Listing:
    """One list at one address, for parts/list.html. `alone`: nothing is filtered, so an empty list has nothing at all."""

    table: ListTable
    form: forms.Form
    page: Page[Any]
    rows: list[BoundRow]
    notes: list[str]
    chips: list[tuple[str, str, str]]
    columns: list[tuple[str, str, bool]]
    kept: QueryDict
    sentence: str

    @property
    def alone(self) -> bool:
        return not self.chips and not self.notes

    @property
    def query(self) -> str:
        """The address without page and format, for links that go on from here."""
        return self.kept.urlencode()

    @property
    def first_filters(self) -> list[forms.BoundField]:
        """Those in sight; a row of more would be a row of slits."""
        return list(self.form)[:FILTERS_IN_SIGHT] if len(self.form.fields) > FILTERS_IN_SIGHT + 1 else list(self.form)

    @property
    def more_filters(self) -> list[forms.BoundField]:
        return list(self.form)[len(self.first_filters) :]

    @property
    def more_chosen(self) -> bool:
        return any(self.form.data.get(field.html_name) for field in self.more_filters)

    def beside(self, *names: str) -> list[tuple[str, str]]:
        """What a form carries along of the address: all but the named, which it has fields for."""
        return [(name, value) for name, values in self.kept.lists() if name not in names for value in values]

    @property
    def beside_filters(self) -> list[tuple[str, str]]:
        return self.beside(*self.form.fields)

    @property
    def beside_columns(self) -> list[tuple[str, str]]:
        return self.beside("columns")


def answer(
    request: HttpRequest,
    template: str,
    rows: QuerySet[Any],
    *,
    table: type[ListTable],
    filters: type[ListFilter],
    sentence: Callable[[QuerySet[Any], int], str],
    **context: object,
) -> HttpResponseBase:
    """The page of a list, or its file where the address asks for one. `sentence` says what was found, in words."""
    chosen = filters(request.GET, rows, request=request)
    found: QuerySet[Any] = chosen.qs
    sort, columns, notes = _asked(request.GET, table, chosen.form)
    shown = table(found, order_by=sort, exclude=[name for name in table.base_columns if name not in columns])
    ordered: QuerySet[Any] = shown.data.data
    wanted = request.GET.get("format", "")
    if wanted:
        return _file(shown, ordered, wanted, notes, bom="bom" in request.GET)
    page = Paginator(ordered, PER_PAGE).get_page(request.GET.get("page"))
    records = list(page.object_list)
    shown.prepare(records)
    listing = Listing(
        table=shown,
        form=chosen.form,
        page=page,
        rows=[BoundRow(record, table=shown) for record in records],
        notes=notes,
        chips=_chips(request.GET, chosen.form),
        columns=[(name, str(column.verbose_name), name in columns) for name, column in table.base_columns.items()
                 if not getattr(column, "lead", False)],
        kept=_kept(request.GET),
        sentence=sentence(found, page.paginator.count),
    )  # fmt: skip
    return render(request, template, {"list": listing, "page": page, **context})


def _asked(address: QueryDict, table: type[ListTable], form: forms.Form) -> tuple[str, list[str], list[str]]:
    """Order and columns that the address asks for, and a sentence on each part of it that says nothing."""
    known, notes = table.base_columns, []
    for name, errors in form.errors.items():
        label = form.fields[name].label if name in form.fields else name
        notes.append(
            _("%(label)s: %(why)s This filter was left out.") % {"label": label, "why": " ".join(map(str, errors))}
        )
    sort = address.get("sort", "") or table.first
    if (bare := sort.removeprefix("-")) not in known or known[bare].orderable is False:
        notes.append(_("This list has no column “%(name)s” to sort by. It is sorted as usual.") % {"name": bare[:60]})
        sort = table.first
    leads = [name for name, column in known.items() if getattr(column, "lead", False)]
    wanted = [name for name in address.getlist("columns") if name]
    for name in wanted:
        if name not in known:
            notes.append(_("This list has no column “%(name)s”.") % {"name": name[:60]})
    chosen = [name for name in wanted if name in known] or [name for name in known if name not in table.hidden]
    if (number := address.get("page", "")) and not number.isdecimal():
        notes.append(_("“%(page)s” is no page. This is the first.") % {"page": number[:60]})
    return sort, [*leads, *chosen], notes


def _kept(address: QueryDict) -> QueryDict:
    """The address without page, format and what is empty."""
    kept = QueryDict(mutable=True)
    for name, values in address.lists():
        if name not in ("page", "format", "bom") and (full := [value for value in values if value]):
            kept.setlist(name, full)
    return kept


def _chips(address: QueryDict, form: forms.Form) -> list[tuple[str, str, str]]:
    """Each filter that holds: its label, its value in words, and the address without it."""
    chips = []
    for name, value in form.cleaned_data.items():
        if value in (None, "", []):
            continue
        without = _kept(address)
        without.pop(name, None)
        chips.append((str(form.fields[name].label), _in_words(form.fields[name], value), without.urlencode()))
    return chips


def _in_words(field: forms.Field, value: object) -> str:
    if isinstance(value, date):
        return when(value)
    offered: Any = getattr(field, "choices", ())
    return next((str(label) for key, label in offered if str(key) == str(value)), str(value))


# --- files -----------------------------------------------------------------------------------------------------------


def _file(table: ListTable, rows: QuerySet[Any], wanted: str, notes: list[str], *, bom: bool) -> HttpResponseBase:
    """Refused where a part of the address is not understood: such a file would not be the rows that were asked for."""
    if wanted not in FORMATS:
        notes = [_("A list is handed out as csv or json, not as “%(format)s”.") % {"format": wanted[:60]}, *notes]
    if notes:
        return HttpResponse("\n".join(notes), status=UNPROCESSABLE, content_type="text/plain; charset=utf-8")
    lines = _lines(table, rows)
    kinds = {"csv": "text/csv; charset=utf-8", "json": "application/json; charset=utf-8"}
    body = csv_of(lines, table.names(), bom=bom) if wanted == "csv" else _json_of(table.stem, lines)
    name = f'attachment; filename="{table.stem}.{wanted}"'
    return StreamingHttpResponse(body, content_type=kinds[wanted], headers={"Content-Disposition": name})


def _lines(table: ListTable, rows: QuerySet[Any]) -> Iterator[dict[str, Value]]:
    found = rows.iterator(chunk_size=CHUNK)
    while piece := list(islice(found, CHUNK)):
        table.prepare(piece)
        yield from (table.row(record) for record in piece)


def _json_of(stem: str, lines: Iterable[dict[str, Value]]) -> Iterator[str]:
    yield f'{{"{stem}": ['
    for number, line in enumerate(lines):
        yield (",\n" if number else "\n") + json.dumps(line, ensure_ascii=False, allow_nan=False)
    yield "\n]}\n"


class _Echo:
    """A file that hands back what is written to it, so that csv can stream."""

    def write(self, value: str) -> str:
        return value


def csv_of(lines: Iterable[dict[str, Value]], columns: Sequence[str], *, bom: bool = False) -> Iterator[str]:
    """UTF-8 text with a header line and CRLF ends, as RFC 4180 has it; what is not known is empty."""
    writer = csv.writer(_Echo())
    yield ("\ufeff" if bom else "") + writer.writerow(columns)
    for line in lines:
        yield writer.writerow([escaped(value) for value in line.values()])


def plain(value: object) -> Value:
    """A value as a file has it: times as ISO 8601 with offset, lists as words, "inf" for what lies among failures."""
    if isinstance(value, float):
        return value if isfinite(value) else "inf" if value > 0 else None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return str(value)


def at(record: object, path: str) -> object:
    """The value at "hardware.slug"; None where something on the way is missing."""
    for name in path.split("."):
        if record is None:
            return None
        record = getattr(record, name)
    return record() if callable(record) else record


# --- cells -----------------------------------------------------------------------------------------------------------


def part(template: str, **context: object) -> SafeString:
    """A small piece that other pages show too."""
    return SafeString(render_to_string(template, context).strip())


def two(first: object, second: object = "") -> SafeString:
    """A value with a smaller line below it."""
    return format_html('{}<span class="hr-sub-l">{}</span>', first, second) if second else format_html("{}", first)


def link(row: Model, title: object, second: object = "", *, url: str = "") -> SafeString:
    """The name of a row that leads to its page, with a smaller line below it."""
    href = url or row.get_absolute_url()  # type: ignore[attr-defined]
    return two(format_html('<a class="hr-main-l" href="{}">{}</a>', href, title), second)
