"""Rows of the judging side: objectives, choices, keys, statements.

Who may decide is held by constraints here and by triggers.py of benchmarks: an approver is neither proposer nor measurer,
a statement has an approved choice, an authorisation and conditions.
"""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from benchmarks.models import Authorization, Conditions, Grid, Versioned


class Objective(Versioned):
    """What a service must keep, set before a run. Measured versions stay as they were; an edit makes a new version."""

    percentile = models.FloatField(default=95, validators=[MinValueValidator(50), MaxValueValidator(99.9)])
    success_share = models.FloatField(
        default=0.99,
        validators=[MinValueValidator(0.5), MaxValueValidator(1)],
        help_text=_("Share of scheduled requests that must succeed."),
    )
    validity_share = models.FloatField(
        default=0.97,
        validators=[MinValueValidator(0), MaxValueValidator(1)],
        help_text=_("Share of answers that must be valid."),
    )
    max_vram_share = models.FloatField(default=0.92, validators=[MinValueValidator(0.1), MaxValueValidator(1)])
    max_temperature_c = models.FloatField(default=85, validators=[MinValueValidator(30), MaxValueValidator(120)])
    max_power_w = models.FloatField(null=True, blank=True, validators=[MinValueValidator(1)])
    reserve_growth = models.FloatField(default=0.10, validators=[MinValueValidator(0), MaxValueValidator(0.9)])
    reserve_variance = models.FloatField(default=0.05, validators=[MinValueValidator(0), MaxValueValidator(0.9)])
    reserve_loss = models.FloatField(default=0.0, validators=[MinValueValidator(0), MaxValueValidator(0.9)])
    terms = models.JSONField(
        default=dict,
        blank=True,
        help_text=_("What it asks beyond latency: engine.plan.ObjectiveTerms as plain values."),
    )
    set_at = models.DateTimeField(
        default=timezone.now, editable=False, help_text=_("When the limits got the values that stand here.")
    )

    class Meta:
        ordering = ["slug", "-version"]
        constraints = [models.UniqueConstraint(fields=["team", "slug", "version"], name="objective_version_once")]

    def get_absolute_url(self) -> str:
        return reverse("objective-detail", args=[self.slug, self.version])


class ClassObjective(models.Model):
    """Limits for one length class, in seconds, at the objective's percentile, from the user's view."""

    objective = models.ForeignKey(Objective, on_delete=models.CASCADE, related_name="classes")
    position = models.PositiveSmallIntegerField(default=0)
    class_name = models.SlugField(max_length=30)
    e2e_s = models.FloatField(_("End to end, s"), null=True, blank=True, validators=[MinValueValidator(0.001)])
    ttft_s = models.FloatField(
        _("Time to first token, s"), null=True, blank=True, validators=[MinValueValidator(0.001)]
    )
    tpot_s = models.FloatField(
        _("Time per output token, s"), null=True, blank=True, validators=[MinValueValidator(0.0001)]
    )

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["objective", "class_name"], name="class_objective_once"),
            models.CheckConstraint(
                condition=Q(e2e_s__isnull=False) | Q(ttft_s__isnull=False) | Q(tpot_s__isnull=False),
                name="class_objective_has_a_limit",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.class_name} of {self.objective}"


class Choice(models.Model):
    """A setting proposed from a grid, or that none of its settings is safe, and what another person decided about it."""

    class Status(models.TextChoices):
        PROPOSED = "proposed", _("Proposed")
        APPROVED = "approved", _("Approved")
        REJECTED = "rejected", _("Rejected")
        WITHDRAWN = "withdrawn", _("Withdrawn")

    grid = models.ForeignKey(Grid, on_delete=models.PROTECT, related_name="choices")
    objective = models.ForeignKey(Objective, on_delete=models.PROTECT, related_name="choices")
    setting = models.PositiveIntegerField(
        null=True,
        help_text=_("Offered concurrency that the evidence stands for; none where no setting was found safe."),
    )
    rollback_setting = models.PositiveIntegerField(null=True, blank=True)
    verdict = models.JSONField(help_text=_("The judge's words and numbers when it was proposed."))
    grade = models.CharField(max_length=30, default="ungraded")
    digest = models.CharField(
        max_length=64, help_text=_("SHA-256 over setting, evidence, grade and rollback: a change voids the approval.")
    )
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.PROPOSED)
    reason = models.TextField(help_text=_("Why this setting, in the proposer's words."))
    measured_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    proposed_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    proposed_at = models.DateTimeField(auto_now_add=True)
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    decided_at = models.DateTimeField(null=True)
    decision_reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(decided_by__isnull=True) | ~Q(decided_by=F("proposed_by")), name="approver_is_not_proposer"
            ),
            models.CheckConstraint(
                condition=~Q(status="approved") | (Q(decided_by__isnull=False) & ~Q(decided_by=F("measured_by"))),
                name="approver_is_not_measurer",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["proposed", "withdrawn"])
                | (Q(decided_by__isnull=False) & Q(decided_at__isnull=False)),
                name="a_decision_has_a_person_and_a_time",
            ),
            models.UniqueConstraint(
                fields=["grid"], condition=Q(status__in=["proposed", "approved"]), name="one_open_choice_per_grid"
            ),
            models.CheckConstraint(
                condition=Q(setting__isnull=False) | (Q(rollback_setting__isnull=True) & ~Q(grade="complete")),
                name="without_a_setting_no_rollback",
            ),
            models.CheckConstraint(
                condition=Q(setting__isnull=True) | ~Q(grade="no safe setting found"),
                name="no_safe_setting_states_none",
            ),
        ]

    def __str__(self) -> str:
        return f"{'No safe setting' if self.setting is None else self.setting} on {self.grid}"

    def get_absolute_url(self) -> str:
        return reverse("choice-detail", args=[self.pk])

    @property
    def title(self) -> str:
        """What was proposed, in words."""
        return "No safe setting" if self.setting is None else f"{self.setting} requests in flight"


class Key(models.Model):
    """A public key that signed statements. The private half is a file of mode 600, never here."""

    keyid = models.CharField(max_length=64, unique=True, help_text=_("SHA-256 of the raw Ed25519 public key."))
    name = models.CharField(max_length=80)
    public_pem = models.TextField()
    certificates_pem = models.TextField(help_text=_("ECDSA leaf and root of the PDF signature."))
    demonstration = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Statement(models.Model):
    """A signed capacity statement. Written once: a trigger refuses UPDATE and DELETE."""

    number = models.CharField(max_length=20, unique=True)
    choice = models.ForeignKey(Choice, on_delete=models.PROTECT, related_name="statements")
    authorization = models.ForeignKey(Authorization, on_delete=models.PROTECT, related_name="+")
    conditions = models.ForeignKey(Conditions, on_delete=models.PROTECT, related_name="+")
    key = models.ForeignKey(Key, on_delete=models.PROTECT, related_name="statements")
    demonstration = models.BooleanField()
    simulated = models.BooleanField()
    envelope = models.BinaryField(help_text=_("DSSE envelope, canonical bytes."))
    pdf = models.BinaryField()
    digest = models.CharField(max_length=64, help_text=_("SHA-256 of the signed payload."))
    issued_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    issued_at = models.DateTimeField()
    valid_until = models.DateTimeField()

    class Meta:
        ordering = ["-issued_at"]
        # Two documents lie in each row: what is sorted and counted by is read from an index, beside them.
        indexes = [
            models.Index(fields=["-issued_at", "-id"], name="statements_by_issue"),
            models.Index(fields=["choice", "valid_until"], name="statements_by_end"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(valid_until__gt=F("issued_at")), name="statement_valid_forward"),
            models.CheckConstraint(
                condition=Q(simulated=False) | Q(demonstration=True), name="simulated_only_with_demonstration_key"
            ),
        ]

    def __str__(self) -> str:
        return self.number

    def get_absolute_url(self) -> str:
        return reverse("statement-detail", args=[self.number])
