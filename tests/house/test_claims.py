"""No text that somebody can type into a page claims a number of users, and each is told the sentence to use instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django import forms

from benchmarks.forms import EndpointCheckForm, HardwareForm, RuntimeForm, no_users_claim
from benchmarks.lengths_forms import LengthClassForm
from benchmarks.records.claims import INSTEAD
from benchmarks.run_forms import ConditionsForm, RevokeForm
from benchmarks.workload_forms import WorkloadForm
from capacity.confirm_forms import ConfirmForm
from capacity.decision_forms import DecideForm, IssueForm, ProposeForm, ProposeNoneForm, WithdrawForm
from capacity.forms import GridForm, ObjectiveForm
from capacity.terms_forms import TermsForm
from tests.factories import make_hardware, make_objective, make_runtime, make_team

pytestmark = pytest.mark.django_db

# Form -> its texts that are no free text: addresses, flags, digests, numbers as text, secrets, what a machine reads.
NOT_SAID = {
    "HardwareForm": {"confirm"},
    "RuntimeForm": {
        "endpoint", "metrics_url", "gpu_metrics_url", "api_key_name", "flags", "model_digest", "launch_profile",
        "geometry_text", "tokenizer_path", "tokenizer_sha256",
    },
    "LengthClassForm": {"prompt_points", "output_points", "pairs"},
    "TermsForm": {"published"},  # what others say of the service, word for word: it is put to the test
    "IssueForm": {"password"},
    "DecideForm": {"password"},
    "ProposeNoneForm": {"result"},
    "GridForm": {"other_settings"},
}  # fmt: skip


def _made() -> dict[str, forms.BaseForm]:
    team = make_team()
    host = make_hardware(team)
    builders: tuple[Callable[[], forms.BaseForm], ...] = (
        lambda: HardwareForm(team=team),
        lambda: HardwareForm(team=team, instance=host),
        lambda: RuntimeForm(team=team),
        lambda: RuntimeForm(team=team, instance=make_runtime(host)),
        lambda: ObjectiveForm(team=team),
        lambda: ObjectiveForm(team=team, instance=make_objective(team)),
        lambda: TermsForm(team=team),
        LengthClassForm, ConditionsForm, RevokeForm, DecideForm, IssueForm, ProposeNoneForm, WithdrawForm,
        lambda: ProposeForm(settings=[4]),
    )  # fmt: skip
    return {f"{number} {type(form).__name__}": form for number, form in enumerate(make() for make in builders)}


def _texts(form: forms.BaseForm, skipped: set[str]) -> dict[str, forms.Field]:
    plain = (forms.CharField,)
    told = {name: field for name, field in form.fields.items() if isinstance(field, plain) and name not in skipped}
    return {name: field for name, field in told.items() if not isinstance(field.widget, forms.HiddenInput)}


def test_every_free_text_of_every_form_refuses_a_number_of_users() -> None:
    missing = [
        f"{title}.{name}"
        for title, form in _made().items()
        for name, field in _texts(form, NOT_SAID.get(title.split()[1], set())).items()
        if no_users_claim not in field.validators
    ]
    assert missing == []


@pytest.mark.parametrize("form", [GridForm, ConfirmForm, WorkloadForm])
def test_the_texts_of_forms_that_need_a_grid_refuse_it_too(form: type[forms.BaseForm]) -> None:
    declared = {
        name
        for name in ("name", "reason", "room", "other_loads", "notes")
        if name in form.base_fields and no_users_claim not in form.base_fields[name].validators
    }
    # A registry form adds its validators when it is made: settle_slug.
    assert declared <= ({"name", "notes", "reason"} if form is WorkloadForm else set())


@pytest.mark.parametrize("text", ["Good for 8 users", "Support chat, can serve 20 people"])
def test_a_title_that_claims_users_is_answered_with_the_sentence_to_use(text: str) -> None:
    form = WithdrawForm({"reason": text})
    assert form.errors["reason"] == [INSTEAD]


def test_a_probe_of_an_address_takes_no_free_text() -> None:
    texts = {name for name, field in EndpointCheckForm.base_fields.items() if type(field) is forms.CharField}
    assert texts <= {"model_name", "api_key_name"}
