"""Pages where people decide: propose, approve or reject, issue a statement, verify one."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from django.conf import settings
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import mark_safe
from django.utils.translation import get_language, gettext, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchmarks.access import APPROVE, EVERYONE, PROPOSE, SIGN, allow, confirmed_by_password, person, posted, public
from benchmarks.models import Grid
from benchmarks.uploads import takes
from capacity import approvals, decision_tables
from capacity.assessment import none
from capacity.assessment.choose import headroom, policy_at, rubric_at
from capacity.assessment.verdict import Grade, PolicyLine, Rubric
from capacity.assessment.verdict import Verdict as Judged
from capacity.decision_forms import (
    NO_SAFE_SETTING,
    DecideForm,
    IssueForm,
    ProposeForm,
    ProposeNoneForm,
    WithdrawForm,
)
from capacity.downloads import attachment
from capacity.models import Choice, Statement
from capacity.queries import Result, result_of
from capacity.standing import changed_since, days_left
from capacity.statement import words
from capacity.statement.figures import charts_svg
from capacity.statement.keys import KEYRING, KeyFileError, Keyring, load_keyring
from capacity.statement.pdf import qr_svg
from capacity.statement.sentences import in_language
from capacity.statement.verify import Verdict, verdict_lines
from capacity.statement.verify import verify as verify_bytes

MAX_STATEMENT_BYTES = 5 * 1024 * 1024
WRONG_PASSWORD = gettext_lazy("That is not your password. Nothing was recorded.")


def _choices(request: HttpRequest) -> QuerySet[Choice]:
    related = (
        "grid", "grid__hardware", "grid__runtime", "grid__workload", "grid__probe", "objective", "proposed_by",
        "measured_by", "decided_by",
    )  # fmt: skip
    return Choice.objects.filter(grid__team=person(request).team).select_related(*related)


def _statements(request: HttpRequest) -> QuerySet[Statement]:
    related = (
        "choice__grid__hardware", "choice__grid__runtime", "choice__grid__workload", "choice__grid__probe",
        "choice__decided_by", "choice__measured_by", "issued_by", "key",
    )  # fmt: skip
    return (
        Statement.objects.filter(choice__grid__team=person(request).team)
        .select_related(*related)
        .defer("pdf", "envelope")
    )


@allow(PROPOSE)
@require_http_methods(["GET", "POST"])
def grid_propose(request: HttpRequest, pk: int) -> HttpResponse:
    who = person(request)
    grid = get_object_or_404(Grid.objects.select_related("hardware", "runtime", "workload"), pk=pk, team=who.team)
    result = result_of(grid)
    verdict = result.verdict
    obstacle = none.obstacle(verdict)
    safe = [row.setting for row in verdict.rows if row.safe] if obstacle else []
    form = _propose_form(request, verdict, safe)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            choice = approvals.propose(grid=grid, setting=given.get("setting"), reason=given["reason"], by=who.user)
        except approvals.Refused as refused:
            form.add_error(None, str(refused))
        else:
            messages.success(request, gettext("Proposed. Another person decides about it now."))
            return redirect(choice)
    context = {
        "grid": grid, "verdict": verdict, "safe": safe, "none": not obstacle, "obstacle": obstacle, "form": form,
        "offers": [_offer(result, setting) for setting in safe],
    }  # fmt: skip
    return render(request, "capacity/grid_propose.html", context, status=422 if form.errors else 200)


@dataclass(frozen=True, slots=True)
class Offer:
    """One safe setting with all that comes with it, and the grade that it would be proposed with."""

    setting: int
    recommended: bool
    stated_per_min: float
    graded: Rubric
    policy: tuple[PolicyLine, ...]


def _offer(result: Result, setting: int) -> Offer:
    row, verdict = result.verdict.row(setting), result.verdict
    assert row is not None  # it is one of the verdict's own
    return Offer(
        setting=setting,
        recommended=setting == verdict.recommended,
        stated_per_min=headroom(result.facts, row).stated_per_min,
        graded=rubric_at(result.facts, verdict, setting),
        policy=policy_at(result.facts, verdict, setting),
    )


def _propose_form(request: HttpRequest, verdict: Judged, safe: list[int]) -> ProposeForm | ProposeNoneForm:
    """Of the safe settings; where there is none, that there is none."""
    if safe:
        initial = {"setting": verdict.recommended, "reason": verdict.summary}
        return ProposeForm(posted(request), settings=safe, initial=initial)
    return ProposeNoneForm(posted(request), initial={"result": NO_SAFE_SETTING, "reason": none.grade_reason(verdict)})


@allow(EVERYONE)
@require_safe
def choice_detail(request: HttpRequest, pk: int) -> HttpResponse:
    choice = get_object_or_404(_choices(request), pk=pk)
    return _choice_page(request, choice, DecideForm(), IssueForm(initial={"title": approvals.title_for(choice)}))


@allow(APPROVE)
@require_POST
def choice_decide(request: HttpRequest, pk: int) -> HttpResponse:
    choice = get_object_or_404(_choices(request), pk=pk)
    form = DecideForm(request.POST)
    if form.is_valid():
        if not confirmed_by_password(request, form.cleaned_data["password"]):
            form.add_error("password", WRONG_PASSWORD)
        else:
            try:
                approvals.decide(
                    choice=choice,
                    by=person(request).user,
                    approve=form.cleaned_data["decision"] == "approve",
                    reason=form.cleaned_data["reason"],
                )
            except approvals.Refused as refused:
                form.add_error(None, str(refused))
            else:
                messages.success(request, gettext("Your decision is recorded."))
                return redirect(choice)
    return _choice_page(request, choice, form, IssueForm(initial={"title": approvals.title_for(choice)}), status=422)


@allow(PROPOSE)
@require_POST
def choice_withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    choice = get_object_or_404(_choices(request), pk=pk)
    form = WithdrawForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(str(error) for error in form.errors["reason"]))
        return redirect(choice)
    try:
        approvals.withdraw(choice=choice, by=person(request).user, reason=form.cleaned_data["reason"])
    except approvals.Refused as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, gettext("Withdrawn. The grid may be proposed again."))
    return redirect(choice)


@allow(SIGN)
@require_POST
def statement_issue(request: HttpRequest, pk: int) -> HttpResponse:
    choice = get_object_or_404(_choices(request), pk=pk)
    form = IssueForm(request.POST)
    if form.is_valid():
        if not confirmed_by_password(request, form.cleaned_data["password"]):
            form.add_error("password", WRONG_PASSWORD)
        else:
            try:
                statement = approvals.issue_statement(
                    choice=choice,
                    by=person(request).user,
                    title=form.cleaned_data["title"],
                    valid_days=form.cleaned_data["valid_days"],
                    waiver=form.waiver_given,
                )
            except approvals.Refused as refused:
                form.add_error(None, str(refused))
            else:
                messages.success(request, gettext("%(number)s is issued and signed.") % {"number": statement.number})
                return redirect(statement)
    return _choice_page(request, choice, DecideForm(), form, status=422)


def _choice_page(
    request: HttpRequest, choice: Choice, decide: DecideForm, issue: IssueForm, *, status: int = 200
) -> HttpResponse:
    who = person(request)
    context = {
        "choice": choice,
        "grid": choice.grid,
        "decide_form": decide,
        "issue_form": issue,
        "withdraw_form": WithdrawForm(),
        "may_withdraw": who.may(PROPOSE) and approvals.withdrawable(choice),
        "may_decide": who.may(APPROVE) and choice.status == Choice.Status.PROPOSED,
        "own": who.user.pk in (choice.proposed_by_id, choice.measured_by_id),
        "may_issue": who.may(SIGN) and choice.status == Choice.Status.APPROVED,
        "obstacles": approvals.obstacles(choice),
        "real_key": approvals.wants_real_key(choice),
        "may_waive": approvals.may_waive(choice, who.user.pk),
        "stands": choice.grade != Grade.NOT_COMPLETE,
        "rests_on": decision_tables.rests_on(choice.grid),
        "changed": changed_since(choice.grid) if choice.status == Choice.Status.APPROVED else (),
        "retest": decision_tables.retest_of(choice.grid),
        "statements": choice.statements.defer("pdf", "envelope"),
    }
    return render(request, "capacity/choice_detail.html", context, status=status)


@allow(EVERYONE)
@require_safe
def statement_detail(request: HttpRequest, number: str) -> HttpResponse:
    statement = get_object_or_404(_statements(request).defer(None), number=number)
    verdict = verify_bytes(bytes(statement.envelope), _keyring(), timezone.now())
    document = approvals.document_of(statement)
    say = in_language(get_language() or "en")
    page = words.page(document, say)
    context = {
        "statement": statement,
        "page": page,
        "charts": mark_safe(charts_svg(document, say)),
        "charts_narrow": mark_safe(charts_svg(document, say, narrow=True)),
        "qr": mark_safe(qr_svg(page.verify_url)),
        "digest12": statement.digest[:12],
        "verdict": verdict,
        "ends": days_left(statement.valid_until, verdict.checked_at) if verdict.state == "valid" else "",
        "replaced_by": decision_tables.replaced_by(statement),
        "replaces": decision_tables.replaces(statement),
        "changed": changed_since(statement.choice.grid),
        "rests_on": decision_tables.rests_on(statement.choice.grid),
        "retest": decision_tables.retest_of(statement.choice.grid),
        "link": request.build_absolute_uri(reverse("verify-statement", args=[number, statement.digest[:12]])),
    }
    return render(request, "capacity/statement_detail.html", context)


@allow(EVERYONE)
@require_safe
def statement_json(request: HttpRequest, number: str) -> HttpResponse:
    statement = get_object_or_404(_statements(request).defer(None), number=number)
    return attachment(bytes(statement.envelope), "application/json", f"{number}.json")


@allow(EVERYONE)
@require_safe
def statement_pdf(request: HttpRequest, number: str) -> HttpResponse:
    statement = get_object_or_404(_statements(request).defer(None), number=number)
    return attachment(bytes(statement.pdf), "application/pdf", f"{number}.pdf")


@public
@takes(2 * MAX_STATEMENT_BYTES)
@require_http_methods(["GET", "POST"])
def verify(request: HttpRequest) -> HttpResponse:
    """Anyone checks a file: the JSON envelope or the PDF. Nothing of it is kept."""
    upload = request.FILES.get("file")
    if request.method == "GET":
        return render(request, "capacity/verify.html", {})
    if upload is None or upload.size is None:
        return render(
            request,
            "capacity/verify.html",
            {"problem": gettext("Choose the statement's JSON or PDF file first.")},
            status=422,
        )
    if upload.size > MAX_STATEMENT_BYTES:
        problem = gettext(
            "This file is larger than 5 MB; a statement is far smaller. Choose the file as it was downloaded."
        )
        return render(request, "capacity/verify.html", {"problem": problem}, status=422)
    verdict = verify_bytes(upload.read(), _keyring(), timezone.now())
    issued = Statement.objects.filter(digest=verdict.digest).first() if verdict.digest else None
    context = _verified(verdict, issued) | {"file_name": upload.name}
    return render(request, "capacity/verify.html", context)


@public
@require_safe
def verify_statement(request: HttpRequest, number: str, digest12: str) -> HttpResponse:
    """The address in the QR code: the verdict on the statement as issued, with no name beyond the statement's own."""
    statement = Statement.objects.filter(number=number).first()
    if statement is None or statement.digest[:12] != digest12:
        return render(request, "capacity/verify.html", {"unknown": number}, status=404)
    verdict = verify_bytes(bytes(statement.envelope), _keyring(), timezone.now())
    return render(request, "capacity/verify.html", _verified(verdict, statement))


@public
@require_safe
def keyring(_request: HttpRequest) -> HttpResponse:
    """The public keys by which anybody verifies offline; who wants more than this site's word compares their fingerprints."""
    answer = HttpResponse(msgspec.json.format(msgspec.json.encode(_keyring())), content_type="application/json")
    answer["Content-Disposition"] = f'attachment; filename="{KEYRING}"'
    return answer


def _verified(verdict: Verdict, issued: Statement | None) -> dict[str, object]:
    """The verdict, what the statement says, and the newer one about the same service where this site issued one."""
    later = decision_tables.replaced_by(issued) if issued and verdict.document else None
    return {
        "verdict": verdict,
        "lines": _lines(verdict),
        "replaced_by": later,
        "replaced_digest12": later.digest[:12] if later else "",
    }


def _keyring() -> Keyring:
    """The keys this site knows; none when it has not made any, so that a verdict says "unknown signer"."""
    try:
        return load_keyring(settings.KEYS_DIR / KEYRING)
    except KeyFileError:
        return Keyring()


def _lines(verdict: Verdict) -> list[tuple[str, str]]:
    """What a genuine statement says, as label and text."""
    if verdict.document is None:
        return []
    first, *rest = verdict_lines(verdict.document)
    return [("Statement", first), *((label, text) for label, _, text in (line.partition(": ") for line in rest))]
