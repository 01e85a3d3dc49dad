"""Forms of running: filter the list, authorise, stop, revoke, record conditions. Each says in words what is wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from benchmarks.drafts import RoomConditions
from benchmarks.forms import lay_out, no_users_claim, units
from benchmarks.models import Conditions, Grid
from benchmarks.queries import most_in_flight
from benchmarks.runs import HOW, Ceilings

if TYPE_CHECKING:
    ConditionsModelForm = forms.ModelForm[Conditions]
else:
    ConditionsModelForm = forms.ModelForm

LONGEST_LEAVE = timedelta(days=7)
HOURS_OFFERED = 8


def _when_field(label: Any) -> forms.DateTimeField:
    return forms.DateTimeField(
        label=label,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S"],
    )


class AuthorizeForm(forms.Form):
    """Leave for one plan: from when until when, and up to which ceilings. The person types their password again."""

    valid_from = _when_field(_("From"))
    valid_until = _when_field(_("Until"))
    max_concurrency = forms.IntegerField(label=_("Requests at a time, at most"), min_value=1, max_value=100_000)
    max_requests = forms.IntegerField(label=_("Requests in all, at most"), min_value=1, max_value=100_000_000)
    max_tokens = forms.IntegerField(label=_("Tokens in all, at most"), min_value=1, max_value=10**12)
    max_minutes = forms.FloatField(label=_("Minutes of load, at most"), min_value=0.1, max_value=100_000)
    max_temperature_c = forms.FloatField(
        label=_("GPU temperature, at most"), required=False, min_value=30, max_value=120
    )
    max_power_w = forms.FloatField(label=_("GPU board power, at most"), required=False, min_value=1, max_value=100_000)
    password = forms.CharField(
        label=_("Your password"),
        strip=False,
        help_text=_("Asked again because this allows load on a host under your name."),
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def __init__(self, *args: Any, grid: Grid, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.grid = grid
        units(self, max_minutes="min", max_temperature_c="°C", max_power_w="W")
        lay_out(
            self, valid_from="h", valid_until="h", max_concurrency="h", max_minutes="h", max_requests="h", max_tokens="h",
            max_temperature_c="h", max_power_w="h",
        )  # fmt: skip

    def clean_max_concurrency(self) -> int:
        value: int = self.cleaned_data["max_concurrency"]
        highest = most_in_flight(self.grid)
        if value < highest:
            raise forms.ValidationError(
                _("The grid offers up to %(n)s at a time. To allow less, have a smaller grid drawn.") % {"n": highest}
            )
        return value

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        start, end = data.get("valid_from"), data.get("valid_until")
        if start and end:
            if end <= start:
                self.add_error("valid_until", _("The end must come after the beginning."))
            elif end <= timezone.now():
                self.add_error("valid_until", _("This time has passed already."))
            elif end - start > LONGEST_LEAVE:
                self.add_error("valid_until", _("At most seven days."))
        return data

    def ceilings(self) -> Ceilings:
        data = self.cleaned_data
        return Ceilings(
            max_concurrency=data["max_concurrency"],
            max_requests=data["max_requests"],
            max_tokens=data["max_tokens"],
            max_minutes=data["max_minutes"],
            max_temperature_c=data["max_temperature_c"],
            max_power_w=data["max_power_w"],
        )


class StopForm(forms.Form):
    how = forms.ChoiceField(choices=[(how, how) for how in HOW], widget=forms.RadioSelect)


class RevokeForm(forms.Form):
    reason = forms.CharField(label=_("Why"), max_length=200, required=False, validators=[no_users_claim])


class ConditionsForm(ConditionsModelForm):
    """The room and the power, as a person or a sensor reads them; what is not known stays empty."""

    at = _when_field(_("Time"))

    class Meta:
        model = Conditions
        fields = ["at", "room", "ambient_c", "ambient_source", "power_source", "ups_on_battery", "other_loads", "notes"]
        widgets = {"notes": forms.Textarea(attrs={"rows": 3})}
        labels = {
            "ambient_c": _("Room temperature, °C"),
            "ups_on_battery": _("UPS on battery"),
            "other_loads": _("Other loads on this host"),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("room", "other_loads", "notes"):
            self.fields[name].validators.append(no_users_claim)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("ambient_c") is not None and data.get("ambient_source") == "unknown":
            self.add_error("ambient_source", _("Say where the temperature was read."))
        if data.get("at") and data["at"] > timezone.now() + timedelta(minutes=5):
            self.add_error("at", _("This time has not come yet."))
        return data

    def room_conditions(self) -> RoomConditions:
        return RoomConditions(**{name: self.cleaned_data[name] for name in self.Meta.fields})
