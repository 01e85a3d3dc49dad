"""Forms of the decisions: propose, decide, issue. Each says in words what is missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext_lazy as _

from benchmarks.forms import no_users_claim
from capacity.approvals import Waiver

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

NO_SAFE_SETTING = "no safe setting"


class PasswordField(forms.CharField):
    """The person's own password, typed again at a decision."""

    def __init__(self) -> None:
        super().__init__(
            label=_("Your password"),
            strip=False,
            help_text=_("Asked again because this is recorded under your name."),
            widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        )


class ReasonField(forms.CharField):
    def __init__(self, label: StrOrPromise, help_text: StrOrPromise = "") -> None:
        super().__init__(
            label=label,
            help_text=help_text,
            max_length=1000,
            widget=forms.Textarea(attrs={"rows": 3}),
            validators=[no_users_claim],
        )


class ProposeForm(forms.Form):
    setting = forms.TypedChoiceField(label=_("Requests in flight"), coerce=int)
    reason = ReasonField(_("Why this setting"), _("Two sentences that the approver and a later reader can check."))

    def __init__(self, *args: object, settings: Iterable[int], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.fields["setting"].choices = [(s, f"{s}") for s in settings]  # type: ignore[attr-defined]


class ProposeNoneForm(forms.Form):
    """That no setting is safe, as a result to be approved. The hidden field says that this is what the page offered."""

    result = forms.CharField(widget=forms.HiddenInput, initial=NO_SAFE_SETTING)
    reason = ReasonField(
        _("Why no setting is safe"), _("Two sentences that the approver and a later reader can check.")
    )

    def clean_result(self) -> str:
        if self.cleaned_data["result"] != NO_SAFE_SETTING:
            raise forms.ValidationError("Open this page again: it offers that no setting is safe, and nothing else.")
        return NO_SAFE_SETTING


class DecideForm(forms.Form):
    decision = forms.ChoiceField(
        choices=[("approve", _("Approve it")), ("reject", _("Send it back: say below what must change"))],
        widget=forms.RadioSelect,
    )
    reason = ReasonField(_("Reason"), _("What you looked at, or what must change before it is proposed again."))
    password = PasswordField()


class WithdrawForm(forms.Form):
    reason = ReasonField(_("Why it is withdrawn"))


class IssueForm(forms.Form):
    title = forms.CharField(
        max_length=120,
        validators=[no_users_claim],
        help_text=_("What the statement is about, such as: Support chat on gpu-01."),
    )
    valid_days = forms.IntegerField(
        label=_("Valid for, days"), min_value=1, max_value=180, initial=90, help_text=_("At most 180.")
    )
    waiver = forms.CharField(
        label=_("Waiver"),
        required=False,
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 3}),
        validators=[no_users_claim],
        help_text=_(
            "Why you answer for what was not tested. It is printed with your name and its last day, and the statement "
            "ends with it."
        ),
    )
    waived_until = forms.DateField(
        label=_("Last day of the waiver"), required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
    password = PasswordField()

    def clean(self) -> dict[str, Any]:
        """A waiver has a reason and a last day, or it is none."""
        found = super().clean() or {}
        if bool(found.get("waiver")) != bool(found.get("waived_until")):
            self.add_error("waiver", "A waiver has a reason and a last day. Give both, or leave both empty.")
        return found

    @property
    def waiver_given(self) -> Waiver | None:
        """Of a valid form."""
        text, until = self.cleaned_data["waiver"].strip(), self.cleaned_data["waived_until"]
        return Waiver(text=text, until=until) if text and until else None
