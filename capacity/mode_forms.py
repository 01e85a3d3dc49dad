"""The part of the new-grid form that belongs to a mode: what it needs beside its settings, and which settings it offers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from django import forms
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext_lazy as _

from benchmarks.forms import lay_out, units
from benchmarks.records.mode_words import ARRIVAL_WORDS
from benchmarks.records.modes import (
    ArrivalKind,
    ClosedTerms,
    MicroTerms,
    Mode,
    OpenTerms,
    SearchTerms,
    StaticTerms,
    Terms,
    terms_of,
)

IN_FLIGHT = (1, 2, 4, 8, 16, 32)
OFFERED: dict[Mode, Sequence[int]] = {**dict.fromkeys(Mode, IN_FLIGHT), Mode.OPEN: (30, 60, 120, 300, 600, 1200)}
MOST_SETTING: dict[Mode, int] = dict.fromkeys(Mode, 4096) | {Mode.OPEN: 60_000}
DEFAULTS: dict[Mode, Terms] = {
    Mode.CLOSED: ClosedTerms(),
    Mode.OPEN: OpenTerms(),
    Mode.MICRO: MicroTerms(),
    Mode.STATIC: StaticTerms(),
    Mode.SEARCH: SearchTerms(),
}
_STEP = re.compile(r"\s*([0-9.]+)\s*(?:s\s*)?[x×*]\s*([0-9.]+)\s*\Z")
_OPTIONAL = ("burstiness", "steps", "processes")


def mode_called(value: object) -> Mode:
    """The mode of that name; a closed loop where nothing or nonsense was said."""
    return Mode(str(value)) if str(value) in Mode.__members__.values() else Mode.CLOSED


class StepsField(forms.CharField):
    """Seconds × times the rate, one after the other: "30 × 1, 10 × 3"."""

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else ", ".join(f"{s:g} × {times:g}" for s, times in value or ())

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        steps = []
        for part in filter(None, re.split(r"[,;]", text)):
            found = _STEP.match(part)
            if not found:
                raise forms.ValidationError(
                    _("“%(part)s” is no step. Write seconds × times the rate, such as 30 × 1.") % {"part": part.strip()}
                )
            try:
                steps.append((float(found[1]), float(found[2])))
            except ValueError:
                raise forms.ValidationError(
                    _("“%(part)s” has a number that cannot be read.") % {"part": part.strip()}
                ) from None
        return tuple(steps)


class ModeForm(forms.Form):
    """What the chosen mode needs beside its settings. Fields of other modes are taken out."""

    arrivals_per_min = forms.IntegerField(label=_("Items arrive"), min_value=1, max_value=60_000)
    arrivals = forms.ChoiceField(choices=[(kind.value, ARRIVAL_WORDS[kind]) for kind in ArrivalKind])
    burstiness = forms.FloatField(
        required=False, min_value=0.01, max_value=100,
        help_text=_("For gamma: 1 is Poisson, below 1 comes in bursts."),
    )  # fmt: skip
    steps = StepsField(required=False, max_length=200, help_text=_("Seconds × times the rate, such as 30 × 1, 10 × 3."))
    max_in_flight = forms.IntegerField(
        label=_("In flight, at most"), min_value=1, max_value=4096,
        help_text=_("What is due beyond it waits in the client, and is said to be late."),
    )  # fmt: skip
    max_wait_ms = forms.FloatField(
        label=_("Gathered for, at most"), min_value=0, max_value=60_000, help_text=_("Charged to each item.")
    )
    max_batches = forms.IntegerField(label=_("Requests in flight, at most"), min_value=1, max_value=4096)
    items = forms.IntegerField(
        min_value=1, max_value=1_000_000, help_text=_("The window is the time in which all of them should be done.")
    )
    beside = forms.IntegerField(label=_("Batches beside each other"), min_value=1, max_value=4096)
    tries = forms.IntegerField(label=_("Tries of an item, at most"), min_value=1, max_value=100)
    most_cells = forms.IntegerField(
        label=_("Cells, at most"), min_value=1, max_value=1000,
        help_text=_("A search that needs more answers “indeterminate”."),
    )  # fmt: skip
    processes = forms.IntegerField(
        label=_("Generator processes"), required=False, min_value=1, max_value=64,
        help_text=_("More than one when a single core of the client would be the bottleneck."),
    )  # fmt: skip

    def __init__(
        self, data: MultiValueDict[str, str] | None = None, *, mode: Mode, initial: Mapping[str, Any] | None = None
    ) -> None:
        own = own_fields(mode)
        start = msgspec.to_builtins(DEFAULTS[mode]) | {n: v for n, v in (initial or {}).items() if n in own}
        super().__init__(data, initial=start)
        self.mode = mode
        self.fields = {name: field for name, field in self.fields.items() if name in own}
        lay_out(self, **dict.fromkeys(own, "h"))
        known = {"max_wait_ms": "ms", "arrivals_per_min": str(_("a minute"))}
        units(self, **{name: unit for name, unit in known.items() if name in own})

    def terms(self) -> Terms:
        """The terms of the mode as typed; a field left empty has its default."""
        typed = {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
        return terms_of(self.mode, typed)


def own_fields(mode: Mode) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(DEFAULTS[mode]))


def was_shown(mode: Mode, data: Mapping[str, Any]) -> bool:
    """Whether the form that was sent held what this mode needs: a mode just switched to has shown nothing yet."""
    needed = [name for name in own_fields(mode) if name not in _OPTIONAL]
    return all(name in data for name in needed)


def terms_typed(mode: Mode, typed: Mapping[str, Any]) -> Terms:
    """The terms as far as they are typed and whole, for a plan that judges nothing: the defaults for what is not."""
    form = ModeForm(MultiValueDict({name: [str(typed[name])] for name in own_fields(mode) if name in typed}), mode=mode)
    form.is_valid()
    kept = msgspec.to_builtins(DEFAULTS[mode]) | {n: v for n, v in form.cleaned_data.items() if v not in (None, "")}
    return terms_of(mode, kept)
