"""Forms of objectives and of a new grid: errors in words that say what to change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.utils.datastructures import MultiValueDict
from django.utils.text import slugify
from django.utils.translation import gettext_lazy as _

from benchmarks.drafts import MIXED
from benchmarks.forms import lay_out, no_users_claim, refuse_users_claims, units
from benchmarks.models import Runtime, Team, Workload
from benchmarks.records.mode_words import WORDS
from benchmarks.records.modes import Mode
from capacity.condition_forms import ConditionFields
from capacity.mode_forms import MOST_SETTING, OFFERED
from capacity.models import Objective
from capacity.objectives import FIELDS, ClassValues

if TYPE_CHECKING:
    ObjectiveModelForm = forms.ModelForm[Objective]
else:
    ObjectiveModelForm = forms.ModelForm

KEPT_PERCENTILES = (50, 95, 99)


class PercentField(forms.FloatField):
    """A share from 0 to 1, written and shown in per cent."""

    def __init__(self, *, least: float, most: float = 100, **kwargs: Any) -> None:
        super().__init__(min_value=least, max_value=most, **kwargs)
        self.widget.attrs.update({"data-unit": "%", "step": "any"})

    def prepare_value(self, value: Any) -> Any:
        return round(value * 100, 6) if isinstance(value, float) else value

    def clean(self, value: Any) -> float | None:
        percent = super().clean(value)
        return None if percent is None else round(percent / 100, 8)


class PercentileField(forms.TypedChoiceField):
    """One of the percentiles that a summary keeps."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=[(str(p), f"p{p}") for p in KEPT_PERCENTILES], coerce=float, **kwargs)

    def prepare_value(self, value: Any) -> Any:
        """An older objective's value is shown as the next percentile that is kept, or the highest."""
        if not isinstance(value, float | int):
            return value
        return str(next((p for p in KEPT_PERCENTILES if value <= p), KEPT_PERCENTILES[-1]))


class ObjectiveForm(ObjectiveModelForm):
    slug = forms.SlugField(
        label=_("Short name"),
        max_length=60,
        required=False,
        help_text=_("Used in addresses. Made from the name when left empty."),
    )
    reason = forms.CharField(
        label=_("Why this change"),
        max_length=300,
        required=False,
        validators=[no_users_claim],
        help_text=_("Kept in the history."),
    )
    percentile = PercentileField(
        label=_("Percentile"), help_text=_("95: of 100 requests of a class, 95 keep its limits."), initial="95"
    )
    success_share = PercentField(
        label=_("Successful requests"), least=50, help_text=_("Of all that were scheduled, at least.")
    )
    validity_share = PercentField(
        label=_("Valid answers"), least=0, help_text=_("Of all answers that were checked, at least.")
    )
    max_vram_share = PercentField(label=_("VRAM"), least=10, help_text=_("A grid stops when more is used."))
    reserve_growth = PercentField(
        label=_("Growth"), least=0, most=90, help_text=_("For more work to come while this is valid.")
    )
    reserve_variance = PercentField(
        label=_("Variance of the measured rate"), least=0, most=90,
        help_text=_("For days that differ from the measured one. Where the repeats spread more, their spread counts."),
    )  # fmt: skip
    reserve_loss = PercentField(
        label=_("Loss of a card"), least=0, most=90,
        help_text=_("Above 0 it is at least one card of those that serve: 50 % of two. 0: a failure may stop the service."),
    )  # fmt: skip

    class Meta:
        model = Objective
        fields = FIELDS
        labels = {
            "max_temperature_c": _("GPU temperature"),
            "max_power_w": _("GPU power"),
            "name": _("Name"),
            "notes": _("Notes"),
        }
        help_texts = {
            "max_temperature_c": _("A grid stops above it."),
            "max_power_w": _("Empty: no limit of its own."),
        }

    def __init__(self, *args: Any, team: Team, instance: Objective | None = None, **kwargs: Any) -> None:
        # An unsaved row brings the model's defaults into the per cent fields.
        kwargs["instance"] = instance or Objective()
        super().__init__(*args, **kwargs)
        self.team = team
        del self.fields["reason" if self.instance.pk is None else "slug"]
        refuse_users_claims(self, "name", "notes", "slug")
        self.fields["notes"].widget.attrs["rows"] = 2
        units(self, max_temperature_c="°C", max_power_w="W")
        lay_out(
            self, name="h", slug="h", percentile="t", success_share="t", validity_share="t", max_vram_share="t",
            max_temperature_c="t", max_power_w="t", reserve_growth="t", reserve_variance="t", reserve_loss="t",
        )  # fmt: skip

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"] or slugify(self.data.get("name", ""))[:60].strip("-")
        if not slug or slug == "new":
            raise forms.ValidationError(_("Give another short name: none could be made from the name."))
        if Objective.objects.filter(team=self.team, slug=slug).exists():
            raise forms.ValidationError(
                _("“%(slug)s” is taken. Edit that objective, or choose another short name.") % {"slug": slug}
            )
        return slug


class ClassObjectiveForm(forms.Form):
    """Limits of one length class. A row left wholly empty is none."""

    class_name = forms.SlugField(
        label=_("Class"),
        max_length=30,
        error_messages={
            "invalid": _("Only letters, digits, - and _, such as short."),
            "required": _("Which length class do these limits hold for?"),
        },
    )
    e2e_s = forms.FloatField(label=_("End to end"), min_value=0.001, required=False)
    ttft_s = forms.FloatField(label=_("Time to first token"), min_value=0.001, required=False)
    tpot_s = forms.FloatField(label=_("Time per output token"), min_value=0.0001, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        units(self, e2e_s="s", ttft_s="s", tpot_s="s")
        lay_out(self, class_name="q", e2e_s="q", ttft_s="q", tpot_s="q")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        limits = [cleaned.get(name) for name in ("e2e_s", "ttft_s", "tpot_s")]
        if self.errors or cleaned.get("DELETE") or not cleaned.get("class_name"):
            return cleaned
        if all(limit is None for limit in limits):
            self.add_error("e2e_s", _("Give at least one limit for %(name)s.") % {"name": cleaned["class_name"]})
        e2e_s, ttft_s = limits[0], limits[1]
        if e2e_s is not None and ttft_s is not None and ttft_s > e2e_s:
            self.add_error("ttft_s", _("The first token cannot be allowed more time than the whole answer."))
        return cleaned


if TYPE_CHECKING:
    ClassObjectiveForms = forms.BaseFormSet[ClassObjectiveForm]
else:
    ClassObjectiveForms = forms.BaseFormSet


class BaseClassObjectiveFormSet(ClassObjectiveForms):
    def add_fields(self, form: Any, index: int | None) -> None:
        super().add_fields(form, index)
        form.fields["DELETE"].label = _("Take this class out")

    def clean(self) -> None:
        if any(self.errors):
            return
        names = [c.class_name for c in self.classes()]
        if not names:
            raise forms.ValidationError(_("An objective needs limits for at least one length class."))
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise forms.ValidationError(
                _("%(name)s stands here twice. Put its limits in one row.") % {"name": twice[0]}
            )

    def classes(self) -> list[ClassValues]:
        filled = [
            f.cleaned_data for f in self.forms if f.cleaned_data.get("class_name") and not f.cleaned_data.get("DELETE")
        ]
        return [ClassValues(c["class_name"], c["e2e_s"], c["ttft_s"], c["tpot_s"]) for c in filled]


ClassObjectiveFormSet = cast(
    "type[BaseClassObjectiveFormSet]",
    forms.formset_factory(
        ClassObjectiveForm, formset=BaseClassObjectiveFormSet, extra=1, can_delete=True, max_num=20, validate_max=True
    ),
)


class SettingsField(forms.MultipleChoiceField):
    """Chosen settings as ascending numbers."""

    widget = forms.CheckboxSelectMultiple


class GridForm(ConditionFields):
    """What shall be measured, with what and under which conditions."""

    name = forms.CharField(label=_("Title"), max_length=120, validators=[no_users_claim])
    reason = forms.CharField(
        label=_("Why it is measured"), max_length=300, required=False, validators=[no_users_claim],
        help_text=_("The host's owner reads this before authorising."),
    )  # fmt: skip
    runtime = forms.ModelChoiceField(
        Runtime.objects.none(), label=_("Runtime configuration"), empty_label=_("Choose a runtime")
    )
    workload = forms.ModelChoiceField(Workload.objects.none(), label=_("Workload"), empty_label=_("Choose a workload"))
    mode = forms.ChoiceField(
        label=_("How it is loaded"), choices=[(mode.value, WORDS[mode].name) for mode in Mode], required=False
    )
    class_names = forms.MultipleChoiceField(
        label=_("Length classes"),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": _("Choose at least one length class.")},
    )
    setting_values = SettingsField(
        required=False,
        error_messages={"invalid_choice": _("%(value)s belongs to another way of loading. Choose the settings again.")},
    )
    managed = forms.BooleanField(label=_("The worker starts the runtime with each setting itself"), required=False)
    other_settings = forms.CharField(label=_("Others"), required=False, max_length=100, help_text=_("Such as 12, 24."))
    objective = forms.ModelChoiceField(
        Objective.objects.none(), label=_("Objective"), empty_label=_("Choose an objective")
    )
    repeats = forms.IntegerField(min_value=1, max_value=20, initial=3, help_text=_("3 or more for a statement."))
    window_s = forms.FloatField(label=_("Window"), min_value=1, max_value=3600, initial=30)
    warmup_s = forms.FloatField(label=_("Warm-up, at most"), min_value=0, max_value=300, initial=5)
    on_guard = forms.ChoiceField(
        label=_("When a limit is reached, requests in flight"), required=False, initial="cancel", widget=forms.RadioSelect,
        choices=[("cancel", _("are ended at once")), ("drain", _("may finish, for at most a minute"))],
    )  # fmt: skip

    def __init__(
        self,
        data: MultiValueDict[str, str] | None = None,
        *,
        team: Team,
        classes: Iterable[str] = (),
        mode: Mode = Mode.CLOSED,
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(data, initial=dict(initial or {}))
        self._choose("runtime", Runtime.objects.filter(team=team).select_related("hardware"), _runtime_label)
        self._choose("workload", Workload.objects.filter(team=team), _versioned_label)
        self._choose("objective", Objective.objects.filter(team=team), _versioned_label)
        self.chosen_mode = mode
        self._say_settings(mode)
        names = [*classes, MIXED]
        self.fields["class_names"].choices = [(n, _("mixed, all classes") if n == MIXED else n) for n in names]  # type: ignore[attr-defined]
        units(self, window_s="s", warmup_s="s", ambient_c="°C")
        lay_out(
            self, repeats="t", window_s="t", warmup_s="t", ambient_c="h",
            ambient_source="h", other_loads="h", ups_on_battery="h", other_settings="h",
        )  # fmt: skip
        for name in ("class_names", "setting_values", "power_source", "on_guard"):
            self.fields[name].widget.attrs["class"] = "hr-chips"

    def _choose(self, name: str, rows: Any, label: Any) -> None:
        field: Any = self.fields[name]
        field.queryset = rows
        field.label_from_instance = label

    def _say_settings(self, mode: Mode) -> None:
        field: Any = self.fields["setting_values"]
        field.label = WORDS[mode].setting
        field.choices = [(str(n), f"{n:,}") for n in OFFERED[mode]]
        if mode == Mode.OPEN:
            self.fields["other_settings"].help_text = _("Such as 90, 240.")

    def clean_mode(self) -> Mode:
        return self.chosen_mode

    def clean_other_settings(self) -> list[int]:
        return _numbers(self.cleaned_data["other_settings"], MOST_SETTING[self.chosen_mode])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        cleaned["settings"] = sorted(
            {*map(int, cleaned.get("setting_values") or []), *(cleaned.get("other_settings") or [])}
        )
        if not cleaned["settings"] and "other_settings" not in self.errors:
            self.add_error("setting_values", _("Choose at least one setting."))
        self.want_conditions(cleaned)
        return cleaned


def _numbers(text: str, most: int) -> list[int]:
    parts = [part for part in re.split(r"[,;\s]+", text) if part]
    wrong = next((part for part in parts if not part.isdecimal() or not 1 <= int(part) <= most), None)
    if wrong is not None:
        raise forms.ValidationError(
            _("“%(text)s” is not a setting. Write whole numbers from 1 to %(most)s, such as 12, 24.")
            % {"text": wrong, "most": f"{most:,}"}
        )
    return [int(part) for part in parts]


def _runtime_label(runtime: Runtime) -> str:
    return f"{runtime.name}, v{runtime.version} on {runtime.hardware.slug}"


def _versioned_label(row: Workload | Objective) -> str:
    return f"{row.name}, v{row.version}"
