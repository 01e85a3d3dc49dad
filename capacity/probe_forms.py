"""The part of the new-grid form that asks for behaviour probes: which ones, and the few parameters worth choosing.

Everything else of a probe has its default, which the grid then keeps and every page shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django import forms
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext_lazy as _

from benchmarks.engine.probe_plan import BY_NAME, Overload, Probe, RetryStorm, name_of
from benchmarks.forms import lay_out, units
from benchmarks.records.probes import ORDER, WORDS, Cost, ProbeWords, cost

SUSTAINED, BURST, BOTH = "sustained", "burst", "both"
BURST_S = 10.0
LEAST_CLIENTS = 8
PARAMETERS: dict[str, tuple[str, ...]] = {
    "fairness": ("long_clients", "alone_s", "beside_s"),
    "overload": ("times_capacity", "measure_s", "calm_s", "overload_s", "most_in_flight"),
    "cancellation": ("tries", "frees_within_s"),
    "retry_storm": ("times_capacity", "measure_s", "calm_s", "load", "most_in_flight"),
    "limits": ("rate_requests",),
    "recovery": ("after", "storm_clients"),
    "idle": ("idle_s",),
}
"""Which parameters of a probe the form has, by the probe's own names; `load` says whether a storm is sustained."""
STARTS: dict[str, object] = {"overload_most_in_flight": 64, "retry_storm_most_in_flight": 64, "idle_idle_s": 30}
"""Where a page starts from something else than the probe's default: gentler on the host."""


@dataclass(frozen=True, slots=True)
class Option:
    """One probe as the form offers it. `fields` are its parameters, once it is ticked."""

    kind: str
    words: ProbeWords
    ticked: bool
    cost: Cost
    fields: tuple[forms.BoundField, ...]


class ProbesForm(forms.Form):
    """Which behaviours are tried after the load. An empty parameter has its default."""

    probes = forms.MultipleChoiceField(
        required=False, choices=[(kind, WORDS[kind].name) for kind in ORDER], widget=forms.CheckboxSelectMultiple
    )
    fairness_long_clients = forms.IntegerField(
        label=_("Long requests beside it, at a time"), required=False, min_value=1, max_value=256
    )
    fairness_alone_s = forms.FloatField(label=_("Short ones alone for"), required=False, min_value=1, max_value=600)
    fairness_beside_s = forms.FloatField(label=_("Beside each other for"), required=False, min_value=1, max_value=600)
    overload_times_capacity = forms.FloatField(
        label=_("Times its capacity"), required=False, min_value=1.1, max_value=10
    )
    overload_measure_s = forms.FloatField(label=_("Capacity measured for"), required=False, min_value=1, max_value=600)
    overload_calm_s = forms.FloatField(label=_("Light load before it for"), required=False, min_value=1, max_value=600)
    overload_overload_s = forms.FloatField(label=_("Overloaded for"), required=False, min_value=1, max_value=600)
    overload_most_in_flight = forms.IntegerField(
        label=_("In flight, at most"), required=False, min_value=2, max_value=4096,
        help_text=_("The authorisation has to allow it. A longer queue than this cannot be seen."),
    )  # fmt: skip
    cancellation_tries = forms.IntegerField(label=_("Tries of each"), required=False, min_value=1, max_value=20)
    cancellation_frees_within_s = forms.FloatField(
        label=_("Free within"), required=False, min_value=0.05, max_value=60, help_text=_("The limit of the verdict.")
    )
    retry_storm_times_capacity = forms.FloatField(
        label=_("Times its capacity"), required=False, min_value=1.1, max_value=10
    )
    retry_storm_measure_s = forms.FloatField(
        label=_("Capacity measured for"), required=False, min_value=1, max_value=600
    )
    retry_storm_calm_s = forms.FloatField(
        label=_("Light load before each for"), required=False, min_value=1, max_value=600
    )
    retry_storm_load = forms.ChoiceField(
        label=_("Load"),
        required=False,
        choices=[(SUSTAINED, _("Sustained")), (BURST, _("A burst of 10 s")), (BOTH, _("Both"))],
    )
    retry_storm_most_in_flight = forms.IntegerField(
        label=_("In flight, at most"), required=False, min_value=2, max_value=4096,
        help_text=_("The authorisation has to allow it."),
    )  # fmt: skip
    limits_rate_requests = forms.IntegerField(
        label=_("Requests of one client within 10 s"), required=False, min_value=1, max_value=1000
    )
    recovery_after = forms.ChoiceField(
        label=_("After"),
        required=False,
        choices=[("overload", _("Overload")), ("cancel_storm", _("A storm of cancellations"))],
    )
    recovery_storm_clients = forms.IntegerField(
        label=_("Requests at once"), required=False, min_value=1, max_value=4096
    )
    idle_idle_s = forms.FloatField(label=_("Without load for"), required=False, min_value=5, max_value=600)

    def __init__(
        self, data: MultiValueDict[str, str] | None = None, *, initial: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(
            data, initial=_defaults() | {n: v for n, v in (initial or {}).items() if n in self.base_fields}
        )
        lay_out(self, **{name: "t" for name in self.fields if name != "probes"})
        units(self, **{name: "s" for name in self.fields if name.endswith("_s")})

    def wanted(self, *, slots: int) -> tuple[Probe, ...]:
        """The probes as typed. `slots` requests at a time fill the runtime, as far as that is known."""
        cleaned = self.cleaned_data
        return tuple(probe for kind in cleaned.get("probes", ()) for probe in _probes(kind, cleaned, slots))

    def options(self, *, slots: int) -> list[Option]:
        """All seven, each with what it may come to by what is typed so far."""
        ticked = self["probes"].value() or ()
        typed = {name: self[name].value() for name in self.fields}
        shown = ProbesForm(MultiValueDict({n: [str(v)] for n, v in typed.items() if n != "probes" and v is not None}))
        shown.is_valid()
        return [
            Option(
                kind=kind,
                words=WORDS[kind],
                ticked=kind in ticked,
                cost=_whole([cost(probe, slots) for probe in _probes(kind, shown.cleaned_data, slots)]),
                fields=tuple(self[f"{kind}_{name}"] for name in PARAMETERS[kind]),
            )
            for kind in ORDER
        ]


def probes_typed(typed: Mapping[str, Any], *, slots: int) -> tuple[Probe, ...]:
    """The probes as far as they are typed and whole, for a plan that judges nothing; nonsense has its default."""
    plain = {name: [str(typed[name])] for name in ProbesForm.base_fields if name in typed and name != "probes"}
    form = ProbesForm(MultiValueDict(plain | {"probes": [k for k in typed.get("probes", ()) if k in ORDER]}))
    form.is_valid()
    return form.wanted(slots=slots)


def from_kept(kept: Sequence[Probe]) -> dict[str, Any]:
    """What the form starts with after an earlier grid's probes."""
    found: dict[str, Any] = {"probes": list(dict.fromkeys(name_of(probe) for probe in kept))}
    for probe in kept:
        given = msgspec.structs.asdict(probe)
        kind = name_of(probe)
        found |= {f"{kind}_{name}": given[name] for name in PARAMETERS[kind] if name in given}
    bursts = {probe.burst_s is not None for probe in kept if isinstance(probe, RetryStorm)}
    if bursts:
        found["retry_storm_load"] = BOTH if len(bursts) == 2 else BURST if True in bursts else SUSTAINED
    return found


def _defaults() -> dict[str, Any]:
    own = {kind: msgspec.structs.asdict(BY_NAME[kind]()) for kind in ORDER}
    named = {f"{k}_{n}": own[k][n] for k, names in PARAMETERS.items() for n in names if n in own[k]}
    return named | {"retry_storm_load": SUSTAINED} | STARTS


def _probes(kind: str, cleaned: Mapping[str, Any], slots: int) -> list[Probe]:
    """One probe, or both storms of retries."""
    start = _defaults()
    values = {name: cleaned.get(f"{kind}_{name}") for name in PARAMETERS[kind]}
    given = {name: start[f"{kind}_{name}"] if value in (None, "") else value for name, value in values.items()}
    load = given.pop("load", SUSTAINED)
    probe = msgspec.structs.replace(BY_NAME[kind](), **given)
    if isinstance(probe, Overload | RetryStorm):
        clients = min(max(slots, LEAST_CLIENTS), probe.most_in_flight)
        probe = msgspec.structs.replace(probe, measure_clients=clients)
    if not isinstance(probe, RetryStorm) or load == SUSTAINED:
        return [probe]
    burst = msgspec.structs.replace(probe, burst_s=BURST_S)
    return [burst] if load == BURST else [probe, burst]


def _whole(costs: Sequence[Cost]) -> Cost:
    return Cost(
        requests=sum(one.requests for one in costs),
        in_flight=max(one.in_flight for one in costs),
        seconds=sum(one.seconds for one in costs),
    )
