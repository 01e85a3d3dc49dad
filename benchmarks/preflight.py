"""What a worker does on the host before a cell: keep what the host is, and look whether the endpoint is what it is said to be."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from benchmarks import audit, host_file, probe
from benchmarks.engine.counting import Count
from benchmarks.models import Grid, Hardware, HardwareProbe, Runtime
from benchmarks.permits import key_refusal, target_refusal
from benchmarks.records import tokenizers
from benchmarks.records.tokenizers import TokenizerError
from benchmarks.runtimes import look

log = logging.getLogger(__name__)


def keep_probe(hardware: Hardware) -> HardwareProbe:
    """Stores what this host is, beside what a person declared; a probe like the last one is not stored again."""
    facts, now, name = probe.host_facts(), timezone.now(), probe.claimant_host(probe.claimant())
    digest = audit.digest_of(facts)
    last = hardware.probes.first()
    if last is None or last.digest != digest:
        last = HardwareProbe.objects.create(hardware=hardware, at=now, worker=name, facts=facts, digest=digest)
    Hardware.objects.filter(pk=hardware.pk).update(worker_seen_at=now, worker_name=name, offers=_offers())
    return last


def _offers() -> dict[str, object]:
    """What the host's own file allows, for pages and forms; or only why the file cannot be used."""
    try:
        return host_file.offers(host_file.read())
    except host_file.HostFileError as error:
        return {"fault": str(error)}


def freeze_probe(grid: Grid) -> None:
    """Ties the grid to what this host is now, once: later probes of the host say nothing about this run."""
    if grid.probe_id is None:
        Grid.objects.filter(pk=grid.pk, probe__isnull=True).update(probe=keep_probe(grid.hardware))


def refusal(grid: Grid) -> str | None:
    """Why this worker may not load the grid's endpoint, in words; None when it may."""
    runtime = grid.runtime
    refused = target_refusal(runtime.endpoint, runtime.metrics_url, runtime.gpu_metrics_url)
    return (
        refused
        or key_refusal(runtime.api_key_name, runtime.endpoint)
        or _tokenizer_refusal(runtime)
        or _label_refusal(runtime, simulated=grid.simulated)
    )


def _tokenizer_refusal(runtime: Runtime) -> str | None:
    """Before anything is sent: what is measured could not be counted afterwards."""
    try:
        if runtime.tokenizer_sha256:
            counting_by(runtime.tokenizer_sha256)
    except TokenizerError as error:
        return str(error)
    return None


def counting_by(sha256: str) -> Count:
    """The tokeniser of that digest on this host. Raises TokenizerError."""
    return _opened(settings.TOKENIZERS, sha256)


@lru_cache(maxsize=2)
def _opened(folder: Path, sha256: str) -> Count:
    """Kept from one cell to the next: reading and hashing some MB again would only repeat what the digest says."""
    return tokenizers.opened(tokenizers.found(folder, sha256))


def counting_if_there(sha256: str) -> Count | None:
    """The same after a cell: what was measured stands even where its tokeniser has gone, with tokens not known."""
    try:
        return counting_by(sha256)
    except TokenizerError as error:
        log.error("%s Tokens that no server counted stay unknown.", error)
        return None


def _label_refusal(runtime: Runtime, *, simulated: bool) -> str | None:
    """A result is called simulated, or not, by what answers, not by what somebody declared. Silence is left to the engine."""
    key = os.environ.get(host_file.key_variable(runtime.api_key_name), "") if runtime.api_key_name else ""
    found = look.is_simulator(runtime.endpoint, api_key=key)
    if found is None or found == simulated:
        return None
    if found:
        return (
            f"{runtime.endpoint} is the Headroom simulator, but is registered as {runtime.get_kind_display()}. "
            "Register it as the simulator, so that its results are called simulated."
        )
    return (
        f"{runtime.endpoint} is registered as the Headroom simulator, but does not answer as one. "
        "Register it as the runtime that it is."
    )
