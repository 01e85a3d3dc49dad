"""The part of a form that asks for room and power before a grid: as a new grid and a confirmation ask for them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from benchmarks.drafts import RoomConditions
from benchmarks.forms import no_users_claim
from benchmarks.models import PowerSource


class ConditionFields(forms.Form):
    """Recorded whole, or left for later. The room alone says nothing: it is filled in from an earlier grid."""

    power_source = forms.ChoiceField(
        choices=PowerSource.choices, required=False, widget=forms.RadioSelect, label=_("Power source")
    )
    room = forms.CharField(
        label=_("Room"), max_length=120, required=False, validators=[no_users_claim], help_text=_("Room and building.")
    )
    ambient_c = forms.FloatField(label=_("Room temperature"), min_value=-30, max_value=60, required=False)
    ambient_source = forms.ChoiceField(
        label=_("Temperature from"), required=False, initial="unknown", help_text=_("Asked with a temperature."),
        choices=[("hand", _("Read by hand")), ("sensor", _("Sensor")), ("unknown", _("Not known"))],
    )  # fmt: skip
    ups_on_battery = forms.BooleanField(label=_("UPS on battery"), required=False)
    other_loads = forms.CharField(
        label=_("Other loads on the host"), max_length=200, required=False, validators=[no_users_claim]
    )
    notes = forms.CharField(
        label=_("Notes"), widget=forms.Textarea(attrs={"rows": 2}), required=False, validators=[no_users_claim]
    )

    def want_conditions(self, cleaned: dict[str, Any]) -> None:
        """Says what is missing where only a part of them was typed."""
        touched = any(cleaned.get(name) for name in ("power_source", "ups_on_battery", "other_loads", "notes"))
        if not touched and cleaned.get("ambient_c") is None:
            return
        if not cleaned.get("power_source"):
            self.add_error("power_source", _("Which power source? Conditions are recorded whole, or left for later."))
        if not cleaned.get("room"):
            self.add_error("room", _("Which room? Conditions are recorded whole, or left for later."))
        if cleaned.get("ambient_c") is not None and cleaned.get("ambient_source") in (None, "", "unknown"):
            self.add_error("ambient_source", _("Where does the temperature come from?"))

    def conditions(self, at: datetime | None = None) -> RoomConditions | None:
        """The conditions as typed, or None where they are left for later."""
        cleaned = self.cleaned_data
        if not cleaned.get("power_source"):
            return None
        return RoomConditions(
            at=at or timezone.now().astimezone(UTC),
            room=cleaned["room"],
            power_source=cleaned["power_source"],
            ambient_c=cleaned["ambient_c"],
            ambient_source=cleaned["ambient_source"] or "unknown",
            ups_on_battery=cleaned["ups_on_battery"],
            other_loads=cleaned["other_loads"],
            notes=cleaned["notes"],
        )
