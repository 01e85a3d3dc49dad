"""Forms of a workload and of a trace file that one is made from. Length classes stand in lengths_forms.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from benchmarks.forms import SlugMixin, lay_out
from benchmarks.imports.trace_layouts import Columns
from benchmarks.imports.trace_text import MOST_BYTES, TraceRefused
from benchmarks.imports.trace_values import UNIT_S
from benchmarks.models import Team, Workload
from benchmarks.records.trace_drafts import MOST_ARRIVALS, TraceDraft, draft_of
from benchmarks.registry import WORKLOAD_FIELDS

if TYPE_CHECKING:
    WorkloadModelForm = forms.ModelForm[Workload]
else:
    WorkloadModelForm = forms.ModelForm


class ShareField(forms.FloatField):
    """A share from 0 to 1, written and shown in per cent; empty is 0."""

    def prepare_value(self, value: Any) -> Any:
        return round(value * 100, 6) if isinstance(value, float) else value

    def clean(self, value: Any) -> float:
        percent = super().clean(value)
        return round((percent or 0.0) / 100, 8)


class WorkloadForm(SlugMixin, WorkloadModelForm):
    shared_prefix_share = ShareField(
        label=_("Shared beginning"),
        min_value=0,
        max_value=95,
        required=False,
        help_text=_("How much of each prompt is one text in all of them, such as a system prompt. Caches serve it."),
    )
    arrivals = forms.CharField(required=False, widget=forms.HiddenInput, max_length=MOST_ARRIVALS * 16)

    class Meta:
        model = Workload
        fields = [name for name in WORKLOAD_FIELDS if name != "arrivals_s"]
        labels = {
            "task": _("What is asked"),
            "name": _("Name"),
            "notes": _("Notes"),
            "seed": _("Seed"),
            "source": _("Source"),
        }
        help_texts = {
            "seed": _("The same seed gives the same prompts."),
            "source": _("Where the lengths come from, with its licence. A preset or a trace fills this in."),
            "turns": _("Above 1, a request carries the conversation so far, and lengths are those of one new message."),
            "think_s": _("From the end of an answer to the next turn."),
        }

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.team = team
        editing = self.instance.pk is not None
        self.settle_slug(editing=editing)
        if editing:
            del self.fields["arrivals"]
        for name in ("turns", "think_s"):
            self.fields[name].required = False
        self.fields["shared_prefix_share"].widget.attrs.update({"data-unit": "%", "step": "any"})
        self.fields["think_s"].widget.attrs.update({"data-unit": "s", "step": "any"})
        lay_out(self, name="h", slug="h", task="h", seed="h", shared_prefix_share="t", turns="t", think_s="t")

    def slug_taken(self, slug: str) -> bool:
        return Workload.objects.filter(team=self.team, slug=slug).exists()

    def clean_turns(self) -> int:
        turns: int | None = self.cleaned_data["turns"]
        return 1 if turns is None else turns

    def clean_think_s(self) -> float:
        return self.cleaned_data["think_s"] or 0.0

    def clean_arrivals(self) -> list[float] | None:
        try:
            return arrivals_from_text(self.cleaned_data["arrivals"])
        except ValueError as error:
            raise forms.ValidationError(
                gettext("The arrivals of the trace cannot be read: %(error)s. Import it again.") % {"error": error}
            ) from error

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("think_s") and cleaned.get("turns") == 1:
            self.add_error(
                "think_s", gettext("A pause needs a conversation: say how many turns, or leave the pause empty.")
            )
        if "arrivals" in self.fields:
            cleaned["arrivals_s"] = cleaned.pop("arrivals", None)
        return cleaned


def arrivals_as_text(arrivals_s: Sequence[float]) -> str:
    return " ".join(f"{offset:.10g}" for offset in arrivals_s)


def arrivals_from_text(text: str) -> list[float] | None:
    """Raises ValueError with what is wrong; None for an empty text."""
    found = [float(part) for part in text.split()]
    if not found:
        return None
    if len(found) > MOST_ARRIVALS:
        raise ValueError(f"more than {MOST_ARRIVALS:,}")
    if not all(math.isfinite(offset) and offset >= 0 for offset in found) or any(a > b for a, b in pairwise(found)):
        raise ValueError("they must be seconds that do not fall")
    return found


class TraceForm(forms.Form):
    """A trace file; read, shown, and not kept."""

    file = forms.FileField(
        label=_("Trace file"),
        help_text=format_lazy(
            _("CSV, or one JSON object per line; gzip is unpacked. At most {most} MB."), most=MOST_BYTES // 1_000_000
        ),
        error_messages={"required": _("Choose the file of the trace."), "empty": _("The file is empty.")},
        widget=forms.FileInput(
            attrs={
                "accept": ".csv,.tsv,.txt,.jsonl,.json,.gz",
                "data-most-bytes": str(MOST_BYTES),
                "data-too-large": format_lazy(
                    _("At most {most} MB are read. Cut the file to its first lines."), most=MOST_BYTES // 1_000_000
                ),
            }
        ),
    )
    prompt_column = forms.CharField(label=_("Prompt tokens"), max_length=80, required=False)
    output_column = forms.CharField(label=_("Answer tokens"), max_length=80, required=False)
    time_column = forms.CharField(label=_("Times"), max_length=80, required=False)
    time_unit = forms.ChoiceField(
        label=_("Unit"),
        required=False,
        choices=[("", _("As named, else s")), *((u, u) for u in UNIT_S)],
    )

    draft: TraceDraft

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        lay_out(self, prompt_column="q", output_column="q", time_column="q", time_unit="q")

    def clean(self) -> dict[str, Any]:
        """Reads the file, so that what is wrong with it stands beside it."""
        cleaned = super().clean() or self.cleaned_data
        file = cleaned.get("file")
        if file is None:
            return cleaned
        said = Columns(
            prompt=cleaned.get("prompt_column", ""), output=cleaned.get("output_column", ""),
            time=cleaned.get("time_column", ""), unit=cleaned.get("time_unit", ""),
        )  # fmt: skip
        try:
            self.draft = draft_of(file.read(MOST_BYTES + 1), said)
        except TraceRefused as refused:
            self.add_error("file", str(refused))
        return cleaned
