"""What a measured cell leaves: its requests as one Parquet file, in pieces, and files that came too late to be the cell's."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from benchmarks.grid_models import Cell
from benchmarks.registry_models import WorkerKey


class Evidence(models.Model):
    """Every request and reading of a measured cell, as Parquet, with its digest. Written once, never changed."""

    cell = models.OneToOneField(Cell, on_delete=models.PROTECT, related_name="evidence")
    attempt = models.PositiveIntegerField()
    schema_version = models.PositiveSmallIntegerField()
    sha256 = models.CharField(max_length=64)
    size_bytes = models.PositiveBigIntegerField()
    requests = models.PositiveIntegerField()
    stored_at = models.DateTimeField(auto_now_add=True)
    signature = models.CharField(max_length=128, blank=True, help_text=_("Ed25519 by the worker's own key, in base64."))
    key = models.ForeignKey(WorkerKey, null=True, on_delete=models.PROTECT, related_name="+")
    readings = models.JSONField(
        null=True, help_text=_("Its telemetry as a few points, for pages: records.kept_readings.")
    )

    class Meta:
        verbose_name_plural = "evidence"

    def __str__(self) -> str:
        return f"evidence of {self.cell_id}, {self.sha256[:12]}"


class EvidenceChunk(models.Model):
    """A piece of the Parquet file, at most 16 MB, so that it commits with its summary on any database."""

    evidence = models.ForeignKey(Evidence, on_delete=models.PROTECT, related_name="chunks")
    number = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["evidence", "number"], name="evidence_chunk_once")]

    def __str__(self) -> str:
        return f"chunk {self.number} of {self.evidence_id}"


class SupersededEvidence(models.Model):
    """A whole measurement that arrived after a newer attempt of its cell had finished: kept, and never the result."""

    cell = models.ForeignKey(Cell, on_delete=models.PROTECT, related_name="superseded")
    attempt = models.PositiveIntegerField()
    schema_version = models.PositiveSmallIntegerField()
    sha256 = models.CharField(max_length=64)
    requests = models.PositiveIntegerField()
    content = models.BinaryField()
    reason = models.CharField(max_length=300)
    stored_at = models.DateTimeField(auto_now_add=True)
    signature = models.CharField(max_length=128, blank=True, help_text=_("Ed25519 by the worker's own key, in base64."))
    key = models.ForeignKey(WorkerKey, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["cell", "attempt"]
        verbose_name_plural = "superseded evidence"
        constraints = [models.UniqueConstraint(fields=["cell", "attempt"], name="superseded_once")]

    def __str__(self) -> str:
        return f"superseded evidence of {self.cell_id}, attempt {self.attempt}"
