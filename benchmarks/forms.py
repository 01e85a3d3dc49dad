"""Forms of the registry: errors in words that say what to change. Workloads stand in workload_forms.py."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django import forms
from django.conf import settings
from django.utils.text import slugify
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from benchmarks.geometry_forms import GeometryFields
from benchmarks.models import EndpointCheck, Hardware, Runtime, RuntimeKind, Team
from benchmarks.offered import profiles_of
from benchmarks.records.claims import users_claim
from benchmarks.registry import HARDWARE_FIELDS, RUNTIME_FIELDS

if TYPE_CHECKING:
    HardwareModelForm = forms.ModelForm[Hardware]
    RuntimeModelForm = forms.ModelForm[Runtime]
else:
    HardwareModelForm = RuntimeModelForm = forms.ModelForm

_KEY_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,59}\Z")
_SHA256 = re.compile(r"(?:sha256:)?[0-9a-fA-F]{64}\Z")
ADDRESS_FIELDS = ("endpoint", "metrics_url", "gpu_metrics_url")


def no_users_claim(text: str) -> None:
    """Form validator: a name or note must not claim a number of users."""
    refusal = users_claim(text)
    if refusal:
        raise forms.ValidationError(refusal, code="users_claim")


SAID = ("name", "slug", "notes", "reason", "place", "cpu", "gpu", "model_name", "runtime_version")
"""Texts of a registry row that a page, a report or a statement repeats."""


def refuse_users_claims(form: forms.BaseForm, *names: str) -> None:
    """Lets none of these fields claim a number of users. Fields that are not there are left out."""
    for name in names:
        if name in form.fields:
            form.fields[name].validators.append(no_users_claim)


def lay_out(form: forms.BaseForm, **spans: str) -> None:
    """Widths for the field template: h half a row, t a third, q a quarter. Fields that are not there are left out."""
    for name, span in spans.items():
        if name in form.fields:
            form.fields[name].widget.attrs["data-span"] = span


def units(form: forms.BaseForm, **words: str) -> None:
    """The unit that the field template writes after a number."""
    for name, word in words.items():
        form.fields[name].widget.attrs.update({"data-unit": word, "step": "any"})


def address_fault(address: str) -> str | None:
    """What is wrong with an address that a worker shall call; None when it may be called."""
    try:
        parts = urlsplit(address)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return "This address cannot be read. It looks like http://127.0.0.1:8080."
    if parts.scheme not in ("http", "https") or not host:
        return "Give a whole address with http:// or https://, such as http://127.0.0.1:8080."
    if parts.username or parts.password:
        return "No name or password in the address. Keys stay on the GPU host and are referred to by name."
    if parts.query or parts.fragment or re.search(r"\s", address):
        return "Only scheme, host, port and path: no spaces, no ? and no #."
    if host.lower() not in {name.lower().strip("[]") for name in settings.TARGET_HOSTS}:
        listed = ", ".join(settings.TARGET_HOSTS)
        return (
            f"{host} is not on the list of hosts that may be loaded ({listed}). "
            "The operator of the host must list it there, in HEADROOM_TARGET_HOSTS of its worker and of this server."
        )
    return None


def base_address(address: str) -> str:
    """Without a closing slash and without /v1, which the engine adds itself."""
    return address.strip().rstrip("/").removesuffix("/v1").rstrip("/")


class AddressField(forms.CharField):
    """An address of the allow-list. Names without a dot are welcome: compose files call services so."""

    widget = forms.URLInput

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=300, **kwargs)

    def validate(self, value: str) -> None:
        super().validate(value)
        fault = address_fault(value) if value else None
        if fault:
            raise forms.ValidationError(fault, code="address")


class EndpointField(AddressField):
    """The base address of an endpoint."""

    def to_python(self, value: object) -> str:
        return base_address(super().to_python(value) or "")


def key_name_fault(name: str) -> str | None:
    """An API key is named, never given: the name of a variable on the GPU host."""
    if not name or _KEY_NAME.match(name):
        return None
    return (
        "Give the name of the key on the GPU host, in capitals, digits and _, such as VLLM_API_KEY. "
        "Never the key itself: if this was one, change it now."
    )


class SlugMixin(forms.Form):
    """A short name for addresses: made from the name when left empty, fixed once registered."""

    slug = forms.SlugField(
        label=_("Short name"),
        max_length=60,
        required=False,
        help_text=_("Used in addresses and by workers. Made from the name when left empty."),
        error_messages={"invalid": _("Only letters, digits, - and _ in a short name.")},
    )
    reason = forms.CharField(
        label=_("Why this change"), max_length=300, required=False, help_text=_("Kept in the history.")
    )

    team: Team

    def settle_slug(self, *, editing: bool) -> None:
        if editing:
            del self.fields["slug"]
        else:
            del self.fields["reason"]
        refuse_users_claims(self, *SAID)
        if "notes" in self.fields:
            self.fields["notes"].widget.attrs["rows"] = 2

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"] or slugify(self.data.get("name", ""))[:60].strip("-")
        if not slug:
            raise forms.ValidationError(gettext("Give a short name: none could be made from the name."))
        if slug in ("new", "check", "checks"):
            raise forms.ValidationError(
                gettext("“%(slug)s” is taken by a page of Headroom. Choose another short name.") % {"slug": slug}
            )
        if self.slug_taken(slug):
            raise forms.ValidationError(
                gettext("“%(slug)s” is taken. Choose another short name, or edit the one that has it.") % {"slug": slug}
            )
        return slug

    def slug_taken(self, slug: str) -> bool:
        """Whether another row has this short name; each form says where it looks."""
        raise AssertionError(f"where to look for {slug}?")


class HardwareForm(SlugMixin, HardwareModelForm):
    class Meta:
        model = Hardware
        fields = HARDWARE_FIELDS
        labels = {
            "name": _("Name"),
            "place": _("Place"),
            "notes": _("Notes"),
            "ram_gib": _("RAM"),
            "vram_gib": _("VRAM of all GPUs"),
            "power_cap_w": _("Power cap"),
        }

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.team = team
        self.settle_slug(editing=self.instance.pk is not None)
        self.fields["gpu_count"].required = False
        units(self, ram_gib="GiB", vram_gib="GiB", power_cap_w="W")
        lay_out(self, name="h", slug="h", cpu="h", ram_gib="h", gpu="h", gpu_count="h", vram_gib="h", power_cap_w="h")

    def slug_taken(self, slug: str) -> bool:
        return Hardware.objects.filter(slug=slug).exists()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        # add_error takes a field out of cleaned_data, so each value is read once, before.
        count = cleaned["gpu_count"] = cleaned.get("gpu_count") or 0
        gpu, vram_gib = cleaned.get("gpu"), cleaned.get("vram_gib")
        if gpu and not count:
            self.add_error(
                "gpu_count", gettext("How many of this GPU does the host have? For none, leave the GPU empty.")
            )
        if count and not gpu:
            self.add_error("gpu", gettext("Which GPU is it? For a host without one, say 0 GPUs."))
        if vram_gib and not count:
            self.add_error("vram_gib", gettext("VRAM without a GPU: leave it empty, or say which GPU it belongs to."))
        return cleaned


class RuntimeForm(GeometryFields, SlugMixin, RuntimeModelForm):
    endpoint = EndpointField(
        label=_("Endpoint"),
        help_text=_("Base address without /v1, such as http://127.0.0.1:8080. Load goes nowhere else."),
    )
    metrics_url = AddressField(
        label=_("Runtime metrics"),
        required=False,
        help_text=_("Prometheus text or JSON, such as http://127.0.0.1:8080/metrics or Ollama's /api/ps."),
    )
    gpu_metrics_url = AddressField(
        label=_("GPU metrics"),
        required=False,
        help_text=_("A DCGM exporter, where NVML is not read on the host itself."),
    )

    class Meta:
        model = Runtime
        fields = tuple(name for name in RUNTIME_FIELDS if name not in ("geometry", "geometry_source"))
        labels = {
            "api_key_name": _("API key name"),
            "max_active_sequences": _("Active sequences, at most"),
            "context_per_sequence_tokens": _("Context per sequence, tokens"),
            "batching_mode": _("Batching mode"),
            "dialect": _("Dialect"),
            "kind": _("Runtime"),
            "launch_profile": _("Launch profile"),
            "name": _("Name"),
            "notes": _("Notes"),
            "flags": _("Flags"),
        }

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.team = team
        self.settle_slug(editing=self.instance.pk is not None)
        hosts = Hardware.objects.filter(team=team)
        self.fields["hardware"] = forms.ModelChoiceField(
            hosts, label=gettext("Host"), empty_label=gettext("Choose a host")
        )
        kind: Any = self.fields["kind"]
        kind.choices = [("", gettext("Choose a runtime")), *RuntimeKind.choices]
        self.fields["dialect"].required = False  # whoever says nothing means what the row has, at first OpenAI chat
        self.fields["flags"].widget.attrs.update(rows=3, spellcheck="false")
        self.fields["flags"].validators.append(_no_key_in_flags)
        self.fields["launch_profile"].widget.attrs.update(list="launch-profiles", spellcheck="false")
        self.settle_geometry()
        self.launch_profiles = sorted({name for host in hosts for name in profiles_of(host)})
        lay_out(
            self, name="h", slug="h", hardware="h", kind="h", endpoint="h", runtime_version="h", model_name="h",
            model_digest="h", tokenizer_sha256="h", api_key_name="h", dialect="h", batching_mode="h", max_active_sequences="h",
            context_per_sequence_tokens="h", metrics_url="h", gpu_metrics_url="h", launch_profile="h",
            geometry_file="h", weights_gib="h",
        )  # fmt: skip

    def _get_validation_exclusions(self) -> set[str]:
        # The model's URL check wants a dot in the host name; AddressField has judged these already, and more strictly.
        return {*super()._get_validation_exclusions(), *ADDRESS_FIELDS}  # type: ignore[misc]

    def slug_taken(self, slug: str) -> bool:
        return Runtime.objects.filter(team=self.team, slug=slug).exists()

    def clean_api_key_name(self) -> str:
        name: str = self.cleaned_data["api_key_name"].strip()
        fault = key_name_fault(name)
        if fault:
            raise forms.ValidationError(fault, code="key_name")
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        self.read_geometry(cleaned)
        return cleaned

    def clean_dialect(self) -> str:
        return self.cleaned_data["dialect"] or str(self.instance.dialect)

    def clean_model_digest(self) -> str:
        return _digest(self.cleaned_data["model_digest"])

    def clean_tokenizer_sha256(self) -> str:
        return _digest(self.cleaned_data["tokenizer_sha256"]).removeprefix("sha256:")


def _digest(text: str) -> str:
    digest = text.strip()
    if digest and not _SHA256.match(digest):
        raise forms.ValidationError(
            gettext("A SHA-256 has 64 hexadecimal digits. Leave it empty when it is not known.")
        )
    return digest.lower()


def _no_key_in_flags(flags: str) -> None:
    """A launch line is shown to everybody in the team and printed on statements."""
    if re.search(r"--api-key[= ]+(?!\$|\*|<)\S+|\b(?:sk|hf)[-_][A-Za-z0-9]{16,}", flags):
        raise forms.ValidationError(
            gettext(
                "There is a key in these flags. Write its name, such as --api-key $VLLM_API_KEY, and change the key."
            )
        )


class EndpointCheckForm(forms.Form):
    """What a worker is asked to find out about an endpoint; its fields carry the names of the runtime form."""

    hardware = forms.ModelChoiceField(Hardware.objects.none(), label=_("Host"), empty_label=_("Choose a host"))
    kind = forms.ChoiceField(label=_("Runtime"), choices=RuntimeKind.choices, initial=RuntimeKind.OTHER)
    endpoint = EndpointField(
        label=_("Endpoint"), help_text=_("Base address without /v1, such as http://127.0.0.1:8080.")
    )
    model_name = forms.CharField(label=_("Model"), max_length=200, required=False)
    api_key_name = forms.CharField(
        label=_("API key name"),
        max_length=60,
        required=False,
        help_text=_("Name of the key on the GPU host, never the key itself."),
    )
    check = forms.ChoiceField(
        choices=EndpointCheck.Kind.choices, widget=forms.HiddenInput, initial=EndpointCheck.Kind.LOOK
    )

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, team: Team, initial: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial=dict(initial or {}))
        field = self.fields["hardware"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = Hardware.objects.filter(team=team)

    def clean_api_key_name(self) -> str:
        name: str = self.cleaned_data["api_key_name"].strip()
        fault = key_name_fault(name)
        if fault:
            raise forms.ValidationError(fault, code="key_name")
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("check") == EndpointCheck.Kind.TEST and not cleaned.get("model_name"):
            self.add_error(
                "model_name",
                gettext("One request needs the name of a model. Look at the endpoint to see which it has."),
            )
        return cleaned
