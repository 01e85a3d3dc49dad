"""Template tags and filters of the design: icons, pills, limit bars, the small grid picture, numbers with units.

A value that is not known is None and reads "not recorded", never 0. Numbers come out with their unit where the
name of the filter says so.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from django import template
from django.conf import settings
from django.forms import BoundField
from django.template import Context
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from benchmarks.models import Role
from benchmarks.stats.per_cent import per_cent

register = template.Library()

VENDOR = Path("static") / "vendor"
PILL_ICONS = {"ok": "check", "warn": "triangle-alert", "bad": "x", "info": "info", "idle": "circle-dashed"}
MESSAGE_KINDS = {"success": "ok", "warning": "warn", "error": "bad"}
# Upper ends of the first six steps of the p95 ÷ objective scale; what lies above the last one is step 6.
RATIO_BREAKS = (0.5, 0.7, 0.85, 1.0, 1.2, 1.45)
Number = float | int


@functools.cache
def _manifest() -> Any:
    return json.loads((Path(settings.BASE_DIR) / VENDOR / "MANIFEST.json").read_text(encoding="utf-8"))


@functools.cache
def vendored_files() -> dict[str, list[str]]:
    """Paths below static/ of each vendored package, by package name, as the manifest records them."""
    return {
        package["name"]: [file["path"].removeprefix("static/") for file in package["files"]]
        for package in _manifest()["packages"]
    }


@functools.cache
def icon_names() -> frozenset[str]:
    """The names in the icon sprite."""
    return frozenset(_manifest()["icons"])


def vendor_path(package: str, name: str) -> str:
    """The path below static/ of one vendored file; LookupError when it is not vendored."""
    for path in vendored_files().get(package, []):
        if path.rsplit("/", 1)[-1] == name:
            return path
    raise LookupError(f"{package}/{name} is not in static/vendor/MANIFEST.json; add it in scripts/vendor")


@register.simple_tag
def vendor(package: str, name: str) -> str:
    """The address of one vendored file, for example {% vendor "htmx.org" "htmx.min.js" %}."""
    return static(vendor_path(package, name))


@register.simple_tag
def icon(name: str, classes: str = "") -> SafeString:
    """One icon of the sprite, hidden from screen readers: the word stands beside it."""
    if name not in icon_names():
        raise template.TemplateSyntaxError(
            f"no icon {name!r} in the sprite; add it to package.json and run scripts/vendor"
        )
    sheet = static(vendor_path("lucide-static", "icons.svg"))
    return format_html(
        '<svg class="hr-i {}" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>', classes, sheet, name
    )


@register.simple_tag
def pill(kind: str, text: object, icon_name: str = "") -> SafeString:
    """A verdict: colour, icon and word. Kinds: ok warn bad info idle."""
    if kind not in PILL_ICONS:
        raise template.TemplateSyntaxError(f"no pill of kind {kind!r}; there are {', '.join(PILL_ICONS)}")
    return format_html('<span class="hr-pill hr-pill-{}">{}{}</span>', kind, icon(icon_name or PILL_ICONS[kind]), text)


def _share(value: Number, top: Number) -> str:
    return f"{min(max(value / top * 100, 0), 100):.1f}"


def _finite(value: Any) -> float | None:
    """The value as a finite number, else None: an empty cell and a NaN are both "not recorded"."""
    if value is None or value == "":
        return None
    number = float(value)
    return number if math.isfinite(number) else None


@register.simple_tag
def bar(value: Any, top: Any, limit: Any = None, label: str = "") -> SafeString:
    """A bar from 0 to `top` with a red tick at the limit; red itself when past it, empty when not recorded."""
    number, end, tick = _finite(value), _finite(top), _finite(limit)
    if number is None or end is None or end <= 0:
        return format_html(
            '<span class="hr-bar hr-bar-none" role="img" aria-label="{}"></span>', label or _("not recorded")
        )
    past = tick is not None and number > tick
    words = label or _("%(value)s of %(limit)s") % {"value": _plain(number), "limit": _plain(tick or end)}
    mark = format_html('<b style="inset-inline-start:{}%"></b>', _share(tick, end)) if tick is not None else ""
    return format_html(
        '<span class="hr-bar{}" role="img" aria-label="{}"><i style="inline-size:{}%"></i>{}</span>',
        " hr-bar-past" if past else "", words, _share(number, end), mark,
    )  # fmt: skip


def _plain(number: float) -> str:
    return f"{number:,.2f}".rstrip("0").rstrip(".")


@register.simple_tag
def glyph(levels: str | Iterable[str], label: str, columns: int = 4) -> SafeString:
    """The small picture of a grid: one square a cell, row by row.

    `levels` are q0 to q6 (see `level`), qn for a cell without a result, now for the running one.
    """
    names = levels.split() if isinstance(levels, str) else [str(each) for each in levels]
    squares = format_html_join("", '<i class="hr-{}"></i>', ((name,) for name in names))
    return format_html(
        '<span class="hr-glyph" role="img" aria-label="{}" style="--hr-columns:{}">{}</span>', label, columns, squares
    )


@register.filter
def level(ratio: Any) -> str:
    """The step of the p95 ÷ objective scale: q0 (0.5 or less) to q6 (over 1.45); qn when not recorded."""
    number = _finite(ratio)
    if number is None:
        return "qn"
    return next((f"q{step}" for step, end in enumerate(RATIO_BREAKS) if number <= end), f"q{len(RATIO_BREAKS)}")


@register.filter
def missing(value: Any) -> Any:
    """The value, or "not recorded" in its place."""
    return _("not recorded") if value is None or value == "" else value


def _fixed(value: Any, digits: int) -> str:
    number = _finite(value)
    return _("not recorded") if number is None else f"{number:,.{digits}f}"


@register.filter
def f0(value: Any) -> str:
    """A number without decimals, thousands apart."""
    return _fixed(value, 0)


@register.filter
def f1(value: Any) -> str:
    """A number with one decimal."""
    return _fixed(value, 1)


@register.filter
def f2(value: Any) -> str:
    """A number with two decimals."""
    return _fixed(value, 2)


@register.filter
def f3(value: Any) -> str:
    """A number with three decimals."""
    return _fixed(value, 3)


@register.filter
def pct(share: Any) -> str:
    """A share from 0 to 1 as per cent, with its sign, which a no-break space keeps on its line: 0.985 reads "98.5 %"."""
    number = _finite(share)
    return _("not recorded") if number is None else per_cent(number, 1)


@register.filter
def seconds(value: Any) -> str:
    """A duration in seconds, three figures where they mean something: 0.043 s, 1.23 s, 12.3 s, 123 s."""
    number = _finite(value)
    if number is None:
        return _("not recorded")
    size = abs(number)
    digits = 3 if 0 < size < 0.1 else 2 if size < 10 else 1 if size < 100 else 0
    return f"{number:,.{digits}f}\u00a0s"


@register.filter
def gib(size_bytes: Any) -> str:
    """A size given in bytes, in GiB: 17609365913 reads "16.4 GiB"."""
    number = _finite(size_bytes)
    if number is None:
        return _("not recorded")
    value = number / 2**30
    return f"{value:,.{1 if value >= 1 or value == 0 else 3}f}\u00a0GiB"


@register.filter
def when(moment: Any) -> str:
    """A date as 14 Nov 2026; a moment as 14 Nov 2026, 10:02 UTC, in the site's time zone."""
    if isinstance(moment, dt.datetime):
        local = timezone.localtime(moment) if timezone.is_aware(moment) else moment
        zone = f" {local.tzname()}" if local.tzinfo else ""
        return f"{date_format(local, 'j M Y, H:i')}{zone}"
    if isinstance(moment, dt.date):
        return str(date_format(moment, "j M Y"))
    return _("not recorded")


@register.filter
def about(value: Any) -> str:
    """A number that is an estimate, to two figures: 4545485 reads "4,500,000"."""
    number = _finite(value)
    return _("not recorded") if number is None else f"{float(f'{number:.2g}'):,.0f}"


NOTHING = SafeString('<span class="hr-muted">–</span>')
"""In a table, where what stands beside it says why there is nothing."""


@register.filter
def is_nothing(cell: Any) -> bool:
    """Whether a table's cell holds NOTHING, which a phone leaves out."""
    return str(cell) == NOTHING


@register.filter
def near(moment: Any) -> str:
    """A moment of today without its date, 17:33 UTC; any other as `when` has it."""
    told = timezone.localtime(moment) if isinstance(moment, dt.datetime) else None
    if told is None or told.date() != timezone.localdate():
        return when(moment)
    return f"{date_format(told, 'H:i')} {told.tzname()}"


@register.filter
def since(moment: Any) -> str:
    """How long ago a moment was: 12 s ago, 3 hours ago."""
    if not isinstance(moment, dt.datetime):
        return _("not recorded")
    age_s = (timezone.now() - moment).total_seconds()
    if age_s < 0:
        return when(moment)
    if age_s < 60:
        return ngettext("%(n)d s ago", "%(n)d s ago", int(age_s)) % {"n": int(age_s)}
    return _("%(age)s ago") % {"age": timesince(moment, depth=1)}


@register.simple_tag
def figure_json(name: str, text: str) -> SafeString:
    """One plotly figure as a data block that no browser runs; `text` is JSON, escaped as json_script does it."""
    safe = text.replace("&", "\\u0026").replace("<", "\\u003C").replace(">", "\\u003E")
    return format_html('<script type="application/json" id="{}">{}</script>', name, mark_safe(safe))


@register.simple_tag(takes_context=True)
def nav_item(
    context: Context,
    url_name: str,
    label: str,
    icon_name: str,
    prefixes: str = "",
    *,
    count: str = "",
    hot: bool = False,
) -> SafeString:
    """One entry of the side bar, marked as current on every page whose URL name starts with one of the prefixes. `count`
    stands at its end in words; a hot one waits for the person who looks."""
    match = getattr(context.get("request"), "resolver_match", None)
    here = (match.url_name if match else "") or ""
    starts: Sequence[str] = prefixes.split() or [url_name]
    current = mark_safe(' aria-current="page"') if here.startswith(tuple(starts)) else ""
    end = format_html('<span class="hr-count{}">{}</span>', " hr-count-hot" if hot else "", count) if count else ""
    return format_html(
        '<a class="hr-nav" href="{}"{}>{}<span>{}</span>{}</a>', reverse(url_name), current, icon(icon_name), label, end
    )


@register.filter
def initials(name: Any) -> str:
    """At most two letters that stand for a person: "Ayesha Khan" reads AK, "operator" reads O."""
    words = [word for word in str(name).replace(".", " ").replace("-", " ").replace("_", " ").split() if word]
    return "".join(word[0] for word in (words[:1] + words[-1:] if len(words) > 1 else words)).upper() or "?"


@register.filter
def role_names(roles: Iterable[Any]) -> str:
    """The words of the roles somebody holds, in the order of the role list."""
    held = set(roles)
    return ", ".join(str(role.label) for role in Role if role in held)


@register.filter
def message_kind(tags: str) -> str:
    """The note colour of one of Django's message levels."""
    return next((kind for tag, kind in MESSAGE_KINDS.items() if tag in tags.split()), "info")


@register.filter
def widget_attr(field: BoundField, name: str) -> str:
    """An attribute of a field's widget, for the field template: data-unit, data-span."""
    return str(field.field.widget.attrs.get(name, ""))


@register.filter
def widget_kind(field: BoundField) -> str:
    """How the field template lays a field out: check, choices or plain."""
    kind = getattr(field.field.widget, "input_type", "")
    if kind == "checkbox" and not field.use_fieldset:
        return "check"
    return "choices" if field.use_fieldset else "plain"


_OPTION_ICONS = {
    "power_source": {
        "grid": "zap", "generator": "plug-zap", "ups": "battery-charging", "solar": "sun", "battery": "unplug",
    }
}  # fmt: skip


@register.filter
def option_icon(field: str, value: object) -> str:
    """The picture beside a choice of this field; none for most."""
    return _OPTION_ICONS.get(field, {}).get(str(value), "")
