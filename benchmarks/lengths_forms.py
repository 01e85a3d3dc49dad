"""The form of length classes: a distribution is a kind and a few numbers, and works without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from benchmarks.engine.plan import Distribution, Fixed, Lognormal, Normal, Quantiles, Uniform
from benchmarks.forms import no_users_claim
from benchmarks.imports.presets import Preset, classes_of
from benchmarks.records import lengths
from benchmarks.registry import ClassValues

KINDS = (
    ("lognormal", _("Lognormal")),
    ("normal", _("Normal")),
    ("uniform", _("Uniform")),
    ("fixed", _("Fixed")),
    ("quantiles", _("Quantiles")),
)
NEEDS = {
    "fixed": ("typical",),
    "uniform": ("low", "high"),
    "normal": ("typical", "spread", "low", "high"),
    "lognormal": ("typical", "spread", "low", "high"),
    "quantiles": ("points",),
}
_NAMED = {
    "typical": "the typical length",
    "spread": "the spread",
    "low": "the least length",
    "high": "the most",
    "points": "the quantiles",
}
_POINT = re.compile(r"p\s*(\d+(?:\.\d+)?)\s*[:= ]\s*(\d+(?:\.\d+)?)", re.IGNORECASE)
_PAIR = re.compile(r"(\d{1,7}):(\d{1,7})", re.ASCII)
MOST_CLASSES = 12


def points_from_text(text: str) -> tuple[tuple[float, float], ...]:
    """Reads "p0 10, p50 180, p100 900"; raises ValueError with a sentence."""
    parts = [part.strip() for part in re.split(r"[,;\n]", text) if part.strip()]
    found = [_POINT.fullmatch(part) for part in parts]
    wrong = next((part for part, match in zip(parts, found, strict=True) if match is None), None)
    if wrong is not None or not parts:
        raise ValueError(f"“{wrong or text}” is not a quantile. Write them like p0 10, p50 180, p100 900.")
    return tuple((round(float(m[1]) / 100, 6), float(m[2])) for m in found if m is not None)


def points_as_text(points: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"p{round(share * 100, 4):g} {tokens:.10g}" for share, tokens in points)


def pairs_from_text(text: str) -> lengths.Pairs | None:
    """Reads "480:12, 3100:8"; raises ValueError with a sentence."""
    parts = [part.strip() for part in re.split(r"[,;\s]+", text) if part.strip()]
    found = [_PAIR.fullmatch(part) for part in parts]
    wrong = next((part for part, match in zip(parts, found, strict=True) if match is None), None)
    if wrong is not None:
        raise ValueError(f"“{wrong[:40]}” is not a pair of lengths. Write prompt:answer, like 480:12, 3100:8.")
    return lengths.read_pairs([(int(m[1]), int(m[2])) for m in found if m is not None])


def pairs_as_text(pairs: Sequence[Sequence[int]] | None) -> str:
    return ", ".join(f"{prompt}:{output}" for prompt, output in pairs or ())


def distribution_from(kind: str, values: Mapping[str, Any]) -> Distribution:
    """Raises ValueError with a sentence when a number is missing or the numbers do not fit together."""
    missing = [_NAMED[name] for name in NEEDS[kind] if values.get(name) in (None, "")]
    if missing:
        raise ValueError(f"{dict(KINDS)[kind]} needs {' and '.join(missing)}.")
    distribution = _build(kind, values)
    wrong = lengths.fault(distribution)
    if wrong:
        raise ValueError(wrong)
    return distribution


def _build(kind: str, values: Mapping[str, Any]) -> Distribution:
    match kind:
        case "fixed":
            return Fixed(tokens=round(values["typical"]))
        case "uniform":
            return Uniform(low=values["low"], high=values["high"])
        case "normal":
            return Normal(mean=values["typical"], sd=values["spread"], low=values["low"], high=values["high"])
        case "lognormal":
            return Lognormal(median=values["typical"], sigma=values["spread"], low=values["low"], high=values["high"])
        case _:
            return Quantiles(points=points_from_text(values["points"]))


def fields_of(distribution: Distribution, prefix: str) -> dict[str, object]:
    """Initial values of the five fields of one distribution."""
    match distribution:
        case Fixed(tokens=tokens):
            values: dict[str, object] = {"kind": "fixed", "typical": tokens}
        case Uniform(low=low, high=high):
            values = {"kind": "uniform", "low": low, "high": high}
        case Normal(mean=mean, sd=sd, low=low, high=high):
            values = {"kind": "normal", "typical": mean, "spread": sd, "low": low, "high": high}
        case Lognormal(median=median, sigma=sigma, low=low, high=high):
            values = {"kind": "lognormal", "typical": median, "spread": sigma, "low": low, "high": high}
        case Quantiles(points=points):
            values = {"kind": "quantiles", "points": points_as_text(points)}
    return {f"{prefix}_{name}": value for name, value in values.items()}


class WhereNeeded(forms.Field):
    """Not "optional" on the page, since the chosen kind decides; what is missing is said by the whole form."""

    def validate(self, value: Any) -> None:
        if value not in self.empty_values:
            super().validate(value)


class NumberWhereNeeded(WhereNeeded, forms.FloatField):
    pass


class WholeWhereNeeded(WhereNeeded, forms.IntegerField):
    pass


class TextWhereNeeded(WhereNeeded, forms.CharField):
    pass


class LengthClassForm(forms.Form):
    """One class. Left wholly empty it is no class; a name makes it one."""

    name = forms.SlugField(
        label=_("Class"),
        max_length=30,
        error_messages={
            "invalid": _("Only letters, digits, - and _, such as short."),
            "required": _("Give the class a name, such as short, or take it out."),
        },
        validators=[no_users_claim],
    )
    weight = forms.FloatField(
        label=_("Share of requests, %"),
        min_value=0.01,
        max_value=100,
        error_messages={"required": _("What share of the requests is of this class?")},
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for prefix, what in (("prompt", gettext("Prompt, tokens")), ("output", gettext("Answer, tokens"))):
            self._add_distribution(prefix, what)
        self.fields["pairs"] = forms.CharField(
            label=gettext("Pairs, drawn together"),
            required=False,
            max_length=lengths.MOST_PAIRS * 18,
            widget=forms.Textarea(attrs={"rows": 2, "placeholder": "480:12, 3100:8", "spellcheck": "false"}),
            help_text=gettext(
                "Prompt and answer tokens of requests, where the two depend on each other. The lengths above then only "
                "describe them."
            ),
        )
        for name in self.fields:
            part = name.partition("_")[2]
            span = {"points": "", "kind": "h", "": "h"}.get(part, "q")
            if name != "pairs" and part != "points":
                self.fields[name].widget.attrs.update({"data-span": span, "step": "any"})

    def _add_distribution(self, prefix: str, what: str) -> None:
        self.fields[f"{prefix}_kind"] = forms.ChoiceField(label=what, choices=KINDS, initial="lognormal")
        self.fields[f"{prefix}_typical"] = NumberWhereNeeded(label=gettext("Typical"), min_value=1)
        self.fields[f"{prefix}_spread"] = NumberWhereNeeded(label=gettext("Spread"), min_value=0)
        self.fields[f"{prefix}_low"] = WholeWhereNeeded(label=gettext("Least"), min_value=1)
        self.fields[f"{prefix}_high"] = WholeWhereNeeded(label=gettext("Most"), min_value=1)
        self.fields[f"{prefix}_points"] = TextWhereNeeded(
            label=gettext("Quantiles"),
            max_length=600,
            widget=forms.Textarea(attrs={"rows": 2, "placeholder": "p0 10, p50 180, p100 900"}),
        )

    @property
    def distributions(self) -> list[tuple[str, list[forms.BoundField]]]:
        """For the template: the fields of each distribution in a row."""
        names = ("kind", "typical", "spread", "low", "high", "points")
        return [(prefix, [self[f"{prefix}_{name}"] for name in names]) for prefix in ("prompt", "output")]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("DELETE") or not self.has_changed() or self.errors:
            return cleaned
        self._clean_pairs(cleaned)
        for prefix in ("prompt", "output"):
            self._clean_distribution(prefix, cleaned)
        return cleaned

    def _clean_pairs(self, cleaned: dict[str, Any]) -> None:
        """Pairs describe themselves where no quantiles were written down for them."""
        try:
            pairs = cleaned["pairs"] = pairs_from_text(cleaned.get("pairs") or "")
        except ValueError as error:
            self.add_error("pairs", str(error))
            return
        for prefix, described in zip(
            ("prompt", "output"), lengths.points_of_pairs(pairs) if pairs else (), strict=False
        ):
            empty = all(cleaned.get(f"{prefix}_{name}") in (None, "") for name in _NAMED)
            if empty or not _near(cleaned.get(f"{prefix}_points") or "", described):
                cleaned |= {f"{prefix}_kind": "quantiles", f"{prefix}_points": points_as_text(described.points)}

    def _clean_distribution(self, prefix: str, cleaned: dict[str, Any]) -> None:
        kind = cleaned.get(f"{prefix}_kind") or "lognormal"
        values = {name: cleaned.get(f"{prefix}_{name}") for name in _NAMED}
        try:
            cleaned[prefix] = distribution_from(kind, values)
        except ValueError as error:
            self.add_error(gettext("%(prefix)s_kind") % {"prefix": prefix}, str(error))


def _near(text: str, described: Quantiles) -> bool:
    """Whether written quantiles can be those of the requests that the pairs were taken from: medians within a quarter."""
    try:
        wanted, found = (lengths.quantile(d, 0.5) for d in (described, Quantiles(points_from_text(text))))
    except ValueError:
        return False
    return abs(found - wanted) <= max(1.0, wanted / 4)


if TYPE_CHECKING:
    LengthClassForms = forms.BaseFormSet[LengthClassForm]
else:
    LengthClassForms = forms.BaseFormSet


class BaseLengthClassFormSet(LengthClassForms):
    """At least one class, no name twice; shares need not add up to 100, they are taken relative to their sum."""

    def add_fields(self, form: Any, index: int | None) -> None:
        super().add_fields(form, index)
        form.fields["DELETE"].label = gettext("Take this class out")

    def clean(self) -> None:
        if any(self.errors):
            return
        names = [form.cleaned_data["name"] for form in self.filled()]
        if not names:
            raise forms.ValidationError(gettext("A workload needs at least one length class."))
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise forms.ValidationError(
                gettext("Two classes are called %(value)s. Each needs a name of its own.") % {"value": twice[0]}
            )
        if "mixed" in names:
            raise forms.ValidationError(
                gettext("“mixed” means all classes at once. Choose another name for this class.")
            )

    def filled(self) -> list[LengthClassForm]:
        return [f for f in self.forms if f.cleaned_data.get("name") and not f.cleaned_data.get("DELETE")]

    def classes(self) -> list[ClassValues]:
        """What the forms say, weights as shares of their sum. Only after is_valid()."""
        filled = [form.cleaned_data for form in self.filled()]
        total = sum(c["weight"] for c in filled)
        return [
            ClassValues(
                c["name"],
                round(c["weight"] / total, 6),
                lengths.plain(c["prompt"]),
                lengths.plain(c["output"]),
                c.get("pairs"),
            )
            for c in filled
        ]


LengthClassFormSet = cast(
    "type[BaseLengthClassFormSet]",
    forms.formset_factory(
        LengthClassForm,
        formset=BaseLengthClassFormSet,
        extra=0,
        can_delete=True,
        max_num=MOST_CLASSES,
        validate_max=True,
    ),
)


def initial_of(classes: Sequence[ClassValues]) -> list[dict[str, object]]:
    """Initial rows of the formset from kept classes."""
    return [
        {
            "name": c.name,
            "weight": round(c.weight * 100, 4),
            "pairs": pairs_as_text(c.pairs),
            **fields_of(lengths.read(c.prompt_tokens), "prompt"),
            **fields_of(lengths.read(c.output_tokens), "output"),
        }
        for c in classes
    ]


def classes_from_preset(preset: Preset) -> list[ClassValues]:
    return [
        ClassValues(c.name, c.weight, _plain_points(c.prompt_points), _plain_points(c.output_points), c.pairs)
        for c in classes_of(preset)
    ]


def _plain_points(points: tuple[tuple[float, float], ...]) -> dict[str, object]:
    return lengths.plain(Quantiles(tuple((share, float(round(tokens))) for share, tokens in points)))


def classes_from_lengths(classes: Sequence[lengths.ClassLengths]) -> list[ClassValues]:
    return [
        ClassValues(c.name, c.weight, lengths.plain(c.prompt_tokens), lengths.plain(c.output_tokens), c.pairs)
        for c in classes
    ]


DEFAULT_CLASSES = (
    ClassValues("short", 0.5, lengths.plain(Lognormal(64, 0.5, 8, 400)), lengths.plain(Lognormal(24, 0.4, 4, 120))),
    ClassValues(
        "median", 0.35, lengths.plain(Lognormal(400, 0.5, 64, 1600)), lengths.plain(Lognormal(96, 0.4, 16, 400))
    ),
    ClassValues(
        "long", 0.15, lengths.plain(Lognormal(1600, 0.4, 400, 4000)), lengths.plain(Lognormal(240, 0.4, 48, 800))
    ),
)


def with_one_more_class(data: QueryDict) -> QueryDict:
    """The posted formset with one empty class more, as the *Add a class* button asks."""
    more = data.copy()
    total = int(data.get("classes-TOTAL_FORMS") or 0)
    more["classes-TOTAL_FORMS"] = str(min(total + 1, MOST_CLASSES))
    return more
