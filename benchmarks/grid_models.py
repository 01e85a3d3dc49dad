"""Grids and what they leave: authorisations, conditions, cells, attempts, figures of lists.

Rules that must hold whoever writes stand here as constraints; triggers.py adds those that a constraint cannot say.
"""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from benchmarks.engine.summary_types import CellSummary, from_json
from benchmarks.records import probes
from benchmarks.records.mode_words import WORDS, ModeWords, in_words, setting_words, stage_words
from benchmarks.records.modes import Mode, terms_of
from benchmarks.registry_models import Hardware, HardwareProbe, Runtime, Team, Workload

MODES = [(mode.value, WORDS[mode].name) for mode in Mode]


class Grid(models.Model):
    """Settings x length classes x repeats on one runtime: drawn by one person, run only after another authorised it."""

    class Status(models.TextChoices):
        DRAFT = "draft", _("Waits for authorisation")
        AUTHORIZED = "authorized", _("Authorised")
        RUNNING = "running", _("Running")
        MEASURED = "measured", _("Measured")
        STOPPED = "stopped", _("Stopped")
        WITHDRAWN = "withdrawn", _("Withdrawn")

    OPEN = (Status.AUTHORIZED, Status.RUNNING)
    """States in which cells are run."""
    OVER = (Status.MEASURED, Status.STOPPED)
    """States after that, in which a setting may be proposed."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=120)
    reason = models.CharField(max_length=300, blank=True)
    hardware = models.ForeignKey(Hardware, on_delete=models.PROTECT, related_name="grids")
    runtime = models.ForeignKey(Runtime, on_delete=models.PROTECT, related_name="grids")
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="grids")
    mode = models.CharField(max_length=10, choices=MODES, default=Mode.CLOSED)
    load = models.JSONField(default=dict, help_text=_("Terms of the mode, as records.modes reads them."))
    setting_values = models.JSONField(help_text=_("Settings of the stages, ascending; the mode says what they mean."))
    class_names = models.JSONField(help_text=_("Length classes measured, and 'mixed' where wanted."))
    repeats = models.PositiveSmallIntegerField(default=1, validators=[MinValueValidator(1), MaxValueValidator(20)])
    window_s = models.FloatField(default=30, validators=[MinValueValidator(1), MaxValueValidator(3600)])
    warmup_s = models.FloatField(default=5, validators=[MinValueValidator(0), MaxValueValidator(300)])
    limits = models.JSONField(help_text=_("Copied from the objective when drawn, so the guard needs nothing else."))
    objective_digest = models.CharField(max_length=64, help_text=_("Proof that the objective was set before the run."))
    objective_set_at = models.DateTimeField()
    declared = models.JSONField(
        default=dict, help_text=_("What the host's people declared of it when the grid was drawn; part of the digest.")
    )
    probe = models.ForeignKey(
        HardwareProbe, null=True, on_delete=models.PROTECT, related_name="+",
        help_text=_("What the worker read on the host just before the first cell."),
    )  # fmt: skip
    calibration = models.JSONField(
        null=True,
        help_text=_("What the load engine's own error was before the first cell, against a server that knows."),
    )
    managed = models.BooleanField(
        default=False, help_text=_("The worker starts the runtime for each setting, by its launch profile.")
    )
    probes = models.JSONField(
        default=list, blank=True, help_text=_("Behaviour probes after the load, with their parameters.")
    )
    on_guard = models.CharField(
        max_length=10,
        default="cancel",
        choices=[("drain", _("Let answers finish")), ("cancel", _("End requests at once"))],
    )
    baseline = models.JSONField(
        null=True, help_text=_("Temperature, power and memory of the idle host before the first cell.")
    )
    confirms = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="confirmations",
        help_text=_("The closed-loop grid whose chosen setting this open loop confirms."),
    )  # fmt: skip
    confirms_setting = models.PositiveIntegerField(null=True, blank=True)
    confirms_queue_cap = models.PositiveIntegerField(null=True, blank=True)
    answer = models.JSONField(null=True, help_text=_("What a capacity search found, or why it could not say."))
    digest = models.CharField(
        max_length=64, help_text=_("SHA-256 of the canonical plan; the authorisation is bound to it.")
    )
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.DRAFT)
    stop_requested = models.CharField(
        max_length=10,
        blank=True,
        choices=[("finish", _("Finish the cell")), ("drain", _("Drain")), ("cancel", _("Cancel"))],
    )
    stop_reason = models.CharField(max_length=300, blank=True)
    paused_at = models.DateTimeField(null=True, help_text=_("Since when no new cell is taken, until somebody goes on."))
    paused_by = models.CharField(max_length=150, blank=True)
    drawn_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    drawn_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    progress_version = models.PositiveIntegerField(default=0)
    simulated = models.BooleanField(default=False)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["team", "-id"]),
            models.Index(fields=["team", "status"], name="grids_by_status"),
            models.Index(fields=["hardware", "status"], name="grids_of_host"),
        ]

    def __str__(self) -> str:
        return f"Grid {self.pk}, {self.name}"

    def get_absolute_url(self) -> str:
        return reverse("grid-detail", args=[self.pk])

    @property
    def words(self) -> ModeWords:
        """What this grid's mode is called, and what a setting means in it."""
        return WORDS[Mode(self.mode)]

    @property
    def load_words(self) -> str:
        """The terms of the mode beside its settings, as one phrase."""
        return in_words(terms_of(self.mode, self.load))

    @property
    def cell_s(self) -> float:
        """Seconds that one cell of plain load takes: warm-up, window and a second around them."""
        return self.warmup_s + self.window_s + 1

    def planned_s(self, cells: int) -> float:
        """Seconds of so many cells of plain load with every behaviour probe, without cool-down and runtime starts."""
        return cells * self.cell_s + probes.seconds(self.probes)


class Authorization(models.Model):
    """Leave to load a host: who gave it, for which plan, from when until when, up to which ceilings."""

    grid = models.ForeignKey(Grid, on_delete=models.PROTECT, related_name="authorizations")
    grid_digest = models.CharField(max_length=64)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    authorized_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    authorized_at = models.DateTimeField(auto_now_add=True)
    target = models.URLField(max_length=300)
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField()
    max_concurrency = models.PositiveIntegerField()
    max_requests = models.PositiveIntegerField()
    max_tokens = models.PositiveBigIntegerField()
    max_minutes = models.FloatField()
    max_temperature_c = models.FloatField(null=True)
    max_power_w = models.FloatField(null=True)
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    signature = models.CharField(max_length=128, blank=True, help_text=_("Ed25519 over what it allows, in base64."))
    signed_by = models.CharField(max_length=64, blank=True, help_text=_("Digest of the key that signed it."))

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=~Q(authorized_by=F("requested_by")), name="authorizer_is_not_requester"),
            models.CheckConstraint(condition=Q(valid_until__gt=F("valid_from")), name="authorization_window_forward"),
            models.UniqueConstraint(
                fields=["grid"], condition=Q(revoked_at__isnull=True), name="one_live_authorization"
            ),
        ]

    def __str__(self) -> str:
        return f"A-{self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("authorization-detail", args=[self.pk])


class PowerSource(models.TextChoices):
    GRID = "grid", _("Mains")
    GENERATOR = "generator", _("Generator")
    UPS = "ups", _("UPS")
    SOLAR = "solar", _("Solar")
    BATTERY = "battery", _("Battery")


class Conditions(models.Model):
    """What the room and the power were like, before or after a grid, and who says so."""

    class Phase(models.TextChoices):
        BEFORE = "before", _("Before")
        AFTER = "after", _("After")

    grid = models.ForeignKey(Grid, on_delete=models.PROTECT, related_name="conditions")
    phase = models.CharField(max_length=10, choices=Phase.choices, default=Phase.BEFORE)
    at = models.DateTimeField()
    room = models.CharField(max_length=120)
    ambient_c = models.FloatField(
        "Room temperature, C", null=True, blank=True, validators=[MinValueValidator(-30), MaxValueValidator(60)]
    )
    ambient_source = models.CharField(
        max_length=10,
        choices=[("hand", _("Read by hand")), ("sensor", _("Sensor")), ("unknown", _("Not known"))],
        default="unknown",
    )
    power_source = models.CharField(max_length=12, choices=PowerSource.choices)
    ups_on_battery = models.BooleanField(default=False)
    other_loads = models.CharField(max_length=200, blank=True)
    notes = models.TextField(blank=True)
    recorded_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["at"]
        verbose_name_plural = "conditions"
        constraints = [models.UniqueConstraint(fields=["grid", "phase"], name="conditions_once_per_phase")]

    def __str__(self) -> str:
        return f"{self.phase} grid {self.grid_id}"


class Cell(models.Model):
    """One setting x length class x repeat. The row is the queue of record: a worker claims it by conditional UPDATE."""

    class Status(models.TextChoices):
        PLANNED = "planned", _("Planned")
        QUEUED = "queued", _("Queued")
        RUNNING = "running", _("Running")
        MEASURED = "measured", _("Measured")
        STOPPED = "stopped", _("Stopped")
        INTERRUPTED = "interrupted", _("Interrupted")
        NOT_RUN = "not_run", _("Not run")

    grid = models.ForeignKey(Grid, on_delete=models.PROTECT, related_name="cells")
    hardware = models.ForeignKey(Hardware, on_delete=models.PROTECT, related_name="+")
    position = models.PositiveIntegerField(help_text=_("Order of running: stages ascend."))
    setting = models.PositiveIntegerField(
        help_text=_("Offered concurrency, or what the grid's mode means by a setting.")
    )
    class_name = models.SlugField(max_length=30)
    probe = models.CharField(max_length=20, blank=True, help_text=_("Which behaviour it tries; empty for plain load."))
    repeat = models.PositiveSmallIntegerField(default=1)
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.PLANNED)
    attempt = models.PositiveIntegerField(default=0)
    claimed_by = models.CharField(max_length=200, blank=True)
    heartbeat_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    reason = models.CharField(
        max_length=300, blank=True, help_text=_("Why it stopped, was interrupted or did not run.")
    )
    progress = models.JSONField(default=dict)
    summary = models.JSONField(null=True)
    verdict = models.JSONField(null=True, help_text=_("What a behaviour probe says, with its figures and reasons."))

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["grid", "setting", "class_name", "repeat", "probe"], name="cell_once"),
            models.UniqueConstraint(
                fields=["hardware"], condition=Q(status="running"), name="one_running_cell_per_hardware"
            ),
            models.CheckConstraint(
                condition=~Q(status="measured") | Q(summary__isnull=False) | Q(verdict__isnull=False),
                name="measured_cell_has_summary",
            ),
        ]
        indexes = [
            models.Index(fields=["hardware", "status", "position"]),
            models.Index(fields=["hardware", "status", "-finished_at"], name="cells_by_end"),
            models.Index(fields=["grid"], condition=Q(status="stopped"), name="stopped_cells"),
        ]

    def __str__(self) -> str:
        return f"{self.name} of grid {self.grid_id}"

    @property
    def name(self) -> str:
        """What it is called within its grid, in file names too."""
        return f"{self.grid.words.symbol}{self.setting}-{self.probe or self.class_name}-r{self.repeat}"

    @property
    def said(self) -> str:
        """Its setting in words of the grid's mode, as measured."""
        return setting_words(self.grid.mode, self.setting)

    @property
    def stage(self) -> str:
        """Its setting in words of the grid's mode, as it is to run."""
        return stage_words(self.grid.mode, self.setting)

    @cached_property
    def read_summary(self) -> CellSummary | None:
        """Read once for each row in memory: several parts of a page ask for it. Raises msgspec.ValidationError."""
        return from_json(self.summary) if self.summary else None


class Attempt(models.Model):
    """One claim of a cell and how it ended, so that an interruption stays visible."""

    cell = models.ForeignKey(Cell, on_delete=models.PROTECT, related_name="attempts")
    number = models.PositiveIntegerField()
    authorization = models.ForeignKey(
        Authorization,
        on_delete=models.PROTECT,
        related_name="+",
        help_text=_("The leave that was in force at the claim."),
    )
    worker = models.CharField(max_length=200)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=12, choices=Cell.Status.choices, blank=True)
    reason = models.CharField(max_length=300, blank=True)
    conditions = models.JSONField(
        default=dict, help_text=_("What the worker read of power and room around this attempt.")
    )

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["cell", "number"], name="attempt_once")]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.cell_id}"


class GridFigures(models.Model):
    """What a list shows of a grid, so that a page of grids need not read every summary of every cell. Derived from the cells
    as they stood at `version` of the grid's progress; made again where that has moved on, and never evidence."""

    grid = models.OneToOneField(Grid, primary_key=True, on_delete=models.CASCADE, related_name="figures")
    version = models.PositiveIntegerField()
    levels = models.JSONField(help_text=_("Steps of the p95 ÷ objective scale, class by class, settings ascending."))
    settings_shown = models.JSONField()
    cells_measured = models.PositiveIntegerField()
    cells_total = models.PositiveIntegerField()
    worst_ratio = models.FloatField(null=True)
    among_failures = models.BooleanField(help_text=_("The worst p95 falls among failed requests, so it has no value."))
    vram_peak_bytes = models.FloatField(null=True)
    host_memory_peak_bytes = models.FloatField(null=True)

    class Meta:
        verbose_name_plural = "grid figures"

    def __str__(self) -> str:
        return f"figures of {self.grid_id}"
