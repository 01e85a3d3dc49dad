"""`manage.py import_trace FILE`: what a request trace says, and with --name a workload made from it. Nothing else is kept."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.management.base import BaseCommand, CommandError
from django.utils.text import slugify

from benchmarks import registry
from benchmarks.access import OPERATE, person_of
from benchmarks.engine.tasks import TASKS
from benchmarks.imports.trace_facts import Arrivals
from benchmarks.imports.trace_layouts import Columns
from benchmarks.imports.trace_text import MOST_BYTES, TraceRefused
from benchmarks.imports.trace_values import UNIT_S
from benchmarks.lengths_forms import classes_from_lengths
from benchmarks.models import Team, Workload
from benchmarks.records.lengths import ClassLengths, p10_p50_p90
from benchmarks.records.trace_drafts import TraceDraft, draft_of, notes_text, source_line


class Command(BaseCommand):
    help = "Shows what a request trace says: lengths, arrivals, warnings. With --name a workload is registered from it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="CSV or one JSON object per line; gzip is unpacked")
        parser.add_argument("--prompt-column", default="", help="column of prompt tokens, where it is not recognised")
        parser.add_argument("--output-column", default="", help="column of answer tokens")
        parser.add_argument("--time-column", default="", help="column of arrival times")
        parser.add_argument("--time-unit", default="", choices=["", *UNIT_S], help="unit of the times, else as named")
        parser.add_argument("--name", default="", help="register a workload of this name")
        parser.add_argument("--team", default="", help="slug of the team that it is for")
        parser.add_argument("--as", dest="username", default="", help="whose workload it is, for the audit chain")
        parser.add_argument("--task", default="words", choices=[*TASKS])
        parser.add_argument("--seed", type=int, default=7)

    def handle(self, *_args: object, **options: Any) -> None:
        said = Columns(options["prompt_column"], options["output_column"], options["time_column"], options["time_unit"])
        draft = _read(options["file"], said)
        for line in _lines(draft):
            self.stdout.write(line)
        if options["name"]:
            workload = _register(draft, options)
            self.stdout.write(f"Registered {workload.slug}, version {workload.version}: {workload.get_absolute_url()}")


def _read(path: Path, said: Columns) -> TraceDraft:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        return draft_of(data, said)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
    except TraceRefused as refused:
        raise CommandError(str(refused)) from refused


def _lines(draft: TraceDraft) -> list[str]:
    lines = [
        f"{draft.title}. {draft.source or 'Whose trace this is, the file does not say.'}",
        f"SHA-256 {draft.sha256}",
    ]
    facts = draft.facts
    if facts is not None:
        how = "not defined" if facts.spearman is None else f"{facts.spearman:+.2f}"
        lines.append(f"{facts.requests:,} requests, rank correlation of prompt and answer {how}")
        lines += _arrivals(facts.arrivals)
    if draft.prefix_reuse is not None:
        lines.append(f"{draft.prefix_reuse:.1%} of the prompts' blocks were in an earlier prompt")
    lines += [_class(c) for c in draft.classes]
    return [*lines, *draft.notes, *(f"Warning: {warning}" for warning in draft.warnings)]


def _arrivals(arrivals: Arrivals | None) -> list[str]:
    if arrivals is None or arrivals.rate_per_s is None:
        return []
    gaps = "burstiness not known" if arrivals.gap_cv is None else f"CV of the gaps {arrivals.gap_cv:.2f}"
    windows = [f"IDC {idc:.2f} in {window_s:g} s" for window_s, idc, _peak in arrivals.idc if idc is not None]
    return [", ".join([f"{arrivals.rate_per_s:.3g} requests a second over {arrivals.span_s:,.0f} s", gaps, *windows])]


def _class(c: ClassLengths) -> str:
    prompt, output = (" / ".join(f"{n:,}" for n in p10_p50_p90(d)) for d in (c.prompt_tokens, c.output_tokens))
    together = f", {len(c.pairs):,} pairs" if c.pairs else ", each length by itself"
    return f"{c.name:<8} {c.weight:>5.1%}  prompt p10 / p50 / p90 {prompt}, answer {output}{together}"


def _register(draft: TraceDraft, options: dict[str, Any]) -> Workload:
    team = Team.objects.filter(slug=options["team"]).first()
    if team is None:
        raise CommandError(f"There is no team {options['team']!r}. Name it with --team.")
    by = _operator(team, options["username"])
    slug = slugify(options["name"])[:60].strip("-")
    if not slug or Workload.objects.filter(team=team, slug=slug).exists():
        raise CommandError(
            f"The team has a workload {slug!r} already, or no short name can be made. Choose another --name."
        )
    values = {
        "name": options["name"], "seed": options["seed"], "task": options["task"], "source": source_line(draft),
        "notes": notes_text(draft), "arrivals_s": list(draft.arrivals_s) or None,
    }  # fmt: skip
    return registry.register_workload(
        team=team, by=by, slug=slug, values=values, classes=classes_from_lengths(draft.classes)
    )


def _operator(team: Team, username: str) -> AbstractBaseUser:
    """Whoever may register a workload on a page may do it here, and nobody else."""
    by = get_user_model().objects.filter(username=username).first()
    if by is None:
        raise CommandError(f"There is no account {username!r}. Say whose workload it is with --as.")
    person = person_of(by, team.slug)
    if person is None or person.team != team or not person.may(OPERATE):
        raise CommandError(f"{username} may not register workloads in {team.slug}: an operator or administrator may.")
    return by
