"""The main job from end to end, over HTTP, as the demonstration accounts: each step is a page that a person would use.

Nobody here has a way around a form: what needs a person's password is sent with that password, by the account that may.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from capacity.management.accounts import read_passwords
from scripts.pages import Form, Page, PageError, Visitor

Row = dict[str, str | float | int | bool | None]
FINISHED = {"measured", "stopped", "not_run"}
LEAST_PAUSE_S, MOST_PAUSE_S, PAUSES = 2.0, 10.0, 10.0


class JourneyError(Exception):
    """A step ended in something else than planned; the message quotes the page."""


@dataclass(frozen=True, slots=True)
class LengthClass:
    """Tokens: the median of prompts and of answers; every answer ends exactly where it was asked to."""

    name: str
    prompt_tokens: int
    output_tokens: int
    share_percent: float = 100.0

    def fields(self, prefix: str) -> dict[str, str]:
        found = {"name": self.name, "weight": f"{self.share_percent:g}"}
        for side, tokens in (("prompt", self.prompt_tokens), ("output", self.output_tokens)):
            found |= {f"{side}_kind": "lognormal", f"{side}_typical": str(tokens), f"{side}_spread": "0.15"}
            found |= {f"{side}_low": str(max(1, tokens // 2)), f"{side}_high": str(tokens * 2), f"{side}_points": ""}
        return {f"{prefix}-{key}": value for key, value in found.items()}


@dataclass(frozen=True, slots=True)
class Plan:
    """What one demonstration registers and measures."""

    host: str
    runtime_name: str
    runtime_kind: str
    runtime_version: str
    model: str
    endpoint: str
    metrics_path: str
    flags: str
    max_active: int
    context_tokens: int
    classes: Sequence[LengthClass]
    settings: Sequence[int]
    window_s: float
    warmup_s: float
    grid_name: str
    room: str = "Demonstration room"
    notes: str = ""
    model_digest: str = ""
    task: str = "words"
    gpu_metrics_path: str = ""
    geometry: str = ""
    weights_gib: float = 0.0
    """The model's config.json, and the size of its weights: what memory is foreseen by."""
    class_names: Sequence[str] = ()
    """Which classes are measured, `mixed` among them perhaps; each class by itself where none is named."""
    repeats: int = 1
    probes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Behaviour probes after the load, each with what is chosen of its parameters."""


@dataclass(slots=True)
class Journey:
    """The accounts of one Headroom, signed in when first needed; `say` gets one line per step."""

    base_url: str
    accounts: Path
    say: Callable[[str], None] = print
    people: dict[str, Visitor] = field(default_factory=dict)

    def as_(self, account: str) -> Visitor:
        if account not in self.people:
            passwords = read_passwords(self.accounts)
            if account not in passwords:
                raise JourneyError(
                    f"{self.accounts} has no password for {account}: manage.py demo_accounts --new-passwords"
                )
            self.people[account] = Visitor(self.base_url, account, passwords[account])
        return self.people[account]

    def close(self) -> None:
        for visitor in self.people.values():
            visitor.close()

    # --- registry ---------------------------------------------------------------------------------------------------

    def register_host(self, plan: Plan) -> str:
        """As the host's owner. Returns the host's path."""
        owner = self.as_("host-owner")
        page = owner.get("/hosts/new/")
        page = owner.send(page, {"name": plan.host, "place": plan.room, "notes": plan.notes})
        self.say(f"host registered by host-owner: {page.path}")
        return page.path

    def register_runtime(self, plan: Plan) -> str:
        operator = self.as_("operator")
        page = operator.get("/runtimes/new/")
        values: dict[str, str | list[str]] = {
            "name": plan.runtime_name,
            "hardware": choice(page, "hardware", plan.host),
            "kind": plan.runtime_kind,
            "runtime_version": plan.runtime_version,
            "endpoint": plan.endpoint,
            "model_name": plan.model,
            "model_digest": plan.model_digest,
            "flags": plan.flags,
            "max_active_sequences": str(plan.max_active),
            "context_per_sequence_tokens": str(plan.context_tokens),
            "metrics_url": plan.endpoint + plan.metrics_path if plan.metrics_path else "",
            "gpu_metrics_url": plan.endpoint + plan.gpu_metrics_path if plan.gpu_metrics_path else "",
        }
        if plan.geometry:
            values |= {"geometry_text": plan.geometry, "weights_gib": f"{plan.weights_gib:g}"}
        page = operator.send(page, values)
        self.say(f"runtime registered by operator: {page.path}")
        return page.path

    def register_workload(self, plan: Plan) -> str:
        operator = self.as_("operator")
        page = operator.get("/workloads/new/")
        rows = {"classes-TOTAL_FORMS": str(len(plan.classes))}
        for number, length_class in enumerate(plan.classes):
            rows |= length_class.fields(f"classes-{number}")
        name = f"{plan.grid_name}: {', '.join(c.name for c in plan.classes)}"
        page = operator.send(page, {"name": name, "seed": "7", "task": plan.task}, extra=rows)
        self.say(f"workload registered by operator: {page.path}")
        return page.path

    def register_objective(
        self, name: str, e2e_s: Mapping[str, float], terms: Mapping[str, str | list[str]] | None = None
    ) -> str:
        """p95 end to end, per length class; `terms` are further fields of the form, by their names."""
        operator = self.as_("operator")
        page = operator.get("/objectives/new/")
        rows = {"classes-TOTAL_FORMS": str(len(e2e_s))}
        for number, (class_name, limit_s) in enumerate(e2e_s.items()):
            rows |= {f"classes-{number}-class_name": class_name, f"classes-{number}-e2e_s": f"{limit_s:.4g}"}
            rows |= {f"classes-{number}-ttft_s": "", f"classes-{number}-tpot_s": ""}
        shares = {"success_share": "99", "validity_share": "97", "max_vram_share": "92"}
        reserves = {"reserve_growth": "10", "reserve_variance": "5", "reserve_loss": "0"}
        values: dict[str, str | list[str]] = {"name": name, "percentile": "95", **shares, **reserves, **(terms or {})}
        page = operator.send(page, values, extra=rows)
        limits = ", ".join(f"{c} {s:.3g} s" for c, s in e2e_s.items())
        self.say(f"objective registered by operator, before the run: p95 end to end {limits}")
        return page.path

    # --- grids ------------------------------------------------------------------------------------------------------

    def draw(self, plan: Plan, *, name: str, objective: str, workload: str, settings: Sequence[int]) -> int:
        """As the operator; returns the grid's number."""
        operator = self.as_("operator")
        page = operator.get("/grids/new/")
        chosen = {
            "runtime": choice(page, "runtime", plan.runtime_name),
            "workload": choice(page, "workload", workload),
            "objective": choice(page, "objective", objective),
        }
        # The page offers the length classes of the workload that is chosen.
        page = operator.get(f"/grids/new/?{urlencode(chosen)}")
        values: dict[str, str | list[str]] = {
            **chosen,
            "name": name,
            "reason": "To find the setting that keeps the objective with room to spare.",
            "class_names": list(plan.class_names) or [c.name for c in plan.classes],
            "setting_values": [str(s) for s in settings],
            "repeats": str(plan.repeats),
            "window_s": f"{plan.window_s:g}",
            "warmup_s": f"{plan.warmup_s:g}",
            "power_source": "grid",
            "room": plan.room,
            "ambient_c": "22",
            "ambient_source": "hand",
        }
        chosen_of = {f"{kind}_{name}": value for kind, given in plan.probes.items() for name, value in given.items()}
        if plan.probes:
            values["probes"] = list(plan.probes)
        # Parameters of a probe are on the page once it is ticked.
        page = operator.send(page, values, extra=chosen_of)
        found = re.match(r"/grids/(\d+)/", page.path)
        if not found:
            raise JourneyError(f"drawing a grid led to {page.path}: {page.words()[:300]}")
        self.say(f"grid {found[1]} drawn by operator: {len(settings)} settings x {len(plan.classes)} length classes")
        return int(found[1])

    def authorize(self, grid: int) -> None:
        """As the host's owner, with the password."""
        owner = self.as_("host-owner")
        page = owner.get(f"/grids/{grid}/authorise/")
        owner.send(page, {"password": owner.password})
        self.say(f"grid {grid} authorised by host-owner, another person than the one who drew it")

    def record_after(self, grid: int) -> None:
        """Room and power after the grid, as they were before."""
        operator = self.as_("operator")
        page = operator.get(f"/grids/{grid}/conditions/after/")
        operator.send(page, {"ambient_c": "22", "ambient_source": "hand"})
        self.say(f"conditions after grid {grid} recorded by operator, as they were before")

    def confirmation(self, grid: int) -> dict[str, str]:
        """What the page proposes: setting, rate_per_min, queue_cap and more, as the form holds it."""
        form = self.as_("operator").get(f"/grids/{grid}/confirm/").form("setting", "queue_cap", "rate_per_min")
        return {name: values[0] for name, values in form.fields.items() if values}

    def draw_confirmation(self, grid: int, *, runtime: str, rate_per_min: int, window_s: float, repeats: int) -> int:
        """An open loop of the mix at this rate, through the proposed queue cap, under the conditions of every other grid
        here; returns its grid's number."""
        operator = self.as_("operator")
        page = operator.get(f"/grids/{grid}/confirm/")
        values: dict[str, str | list[str]] = {
            "runtime": choice(page, "runtime", runtime),
            "rate_per_min": str(rate_per_min),
            "window_s": f"{window_s:g}",
            "repeats": str(repeats),
            "power_source": "grid",
            "ambient_c": "22",
            "ambient_source": "hand",
        }
        page = operator.send(page, values, extra={"action": "draw"})
        found = re.match(r"/grids/(\d+)/", page.path)
        if not found:
            raise JourneyError(f"drawing the confirmation led to {page.path}: {page.words()[:300]}")
        self.say(f"grid {found[1]}, the confirmation of grid {grid}, drawn by operator")
        return int(found[1])

    def is_draft(self, grid: int) -> bool:
        """Whether it still waits for its authorisation."""
        return "password" in {name for form in self.form_of_authorization(grid) for name in form.fields}

    def form_of_authorization(self, grid: int) -> list[Form]:
        return self.as_("host-owner").get(f"/grids/{grid}/authorise/").forms

    def finished(self, grid: int) -> bool:
        return all(status in FINISHED for status in self.states(grid))

    def cells(self, grid: int) -> list[Row]:
        """One row per cell and length class, as the page's own JSON download has them."""
        rows: list[Row] = json.loads(self.as_("operator").download(f"/grids/{grid}/cells.json"))["rows"]
        return rows

    def states(self, grid: int) -> list[str]:
        """Of every cell of load and every behaviour probe."""
        return [*self._states(grid, "cells"), *self._states(grid, "behaviour")]

    def _states(self, grid: int, table: str) -> list[str]:
        rows: list[Row] = json.loads(self.as_("operator").download(f"/grids/{grid}/{table}.json"))["rows"]
        return list({row["cell"]: str(row["status"]) for row in rows}.values())

    def wait(
        self, grid: int, *, within_s: float, tick: Callable[[int, int, float], None], load_only: bool = False
    ) -> list[Row]:
        """Until every cell and every behaviour probe has ended, or with `load_only` every cell; `tick` gets finished ones,
        all of them and seconds so far. Each look has the whole grid judged, so the next one waits for many times as long
        as it took: what is measured shares its cores with the web server."""
        started = time.monotonic()
        while True:
            asked = time.monotonic()
            states = self._states(grid, "cells") if load_only else self.states(grid)
            done = sum(status in FINISHED for status in states)
            elapsed = time.monotonic() - started
            tick(done, len(states), elapsed)
            if done == len(states):
                return self.cells(grid)
            if elapsed > within_s:
                raise JourneyError(
                    f"grid {grid} has only {done} of {len(states)} cells after {within_s:.0f} s: see the worker's log"
                )
            time.sleep(min(MOST_PAUSE_S, max(LEAST_PAUSE_S, PAUSES * (time.monotonic() - asked))))

    def stop(self, grid: int) -> None:
        """As the operator: what is in flight ends at once, and what has not run does not."""
        operator = self.as_("operator")
        operator.send(operator.get(f"/grids/{grid}/live/"), {"how": "cancel"}, action="/stop/")
        self.say(f"grid {grid} stopped by operator: what it measured is kept")

    # --- decisions --------------------------------------------------------------------------------------------------

    def safe_settings(self, grid: int) -> list[str]:
        """The settings that the page lets a person propose, the recommended one first; empty where none is safe."""
        page = self.as_("operator").get(f"/grids/{grid}/propose/")
        try:
            form = page.form("setting", "reason")
        except PageError:
            return []
        chosen = form.fields["setting"][0]
        return [chosen, *(value for value, _ in form.options["setting"] if value and value != chosen)]

    def unsignable(self, grid: int) -> bool:
        """Whether no key signs what is recommended: mostly, the machine held the load client up in windows beside it."""
        offered = self.as_("operator").get(f"/grids/{grid}/propose/").words().partition("Recommended.")[2]
        return "Not complete" in offered[:300]

    def finding(self, grid: int) -> str:
        """What the propose page says, without its frame."""
        words = self.as_("operator").get(f"/grids/{grid}/propose/").words()
        return words[max(0, words.find("safe setting")) :][:300]

    def rubric(self, grid: int) -> dict[str, Row]:
        """The criteria of the grid's grade by their keys, as the page's own JSON download has them."""
        rows: list[Row] = json.loads(self.as_("operator").download(f"/grids/{grid}/rubric.json"))["rows"]
        return {str(row["key"]): row for row in rows if row["part"] == "rubric"}

    def propose(self, grid: int) -> int:
        """The recommended setting, with the page's own words as the reason; returns the choice's number."""
        operator = self.as_("operator")
        page = operator.get(f"/grids/{grid}/propose/")
        form = page.form("setting", "reason")
        page = operator.send(page, {"setting": form.fields["setting"][0], "reason": form.fields["reason"][0].strip()})
        found = re.match(r"/approvals/(\d+)/", page.path)
        if not found:
            raise JourneyError(f"proposing led to {page.path}: {page.words()[:300]}")
        self.say(f"{form.fields['setting'][0]} requests in flight proposed by operator")
        return int(found[1])

    def refused(self, step: Callable[[], object], what: str) -> None:
        """A step that must not succeed; says how the page refused it."""
        try:
            step()
        except PageError as refusal:
            self.say(f"refused, as it must be: {what} ({describe(refusal)})")
            return
        raise JourneyError(f"{what} was let through")

    def approve(self, number: int, account: str = "approver") -> None:
        approver = self.as_(account)
        page = approver.get(f"/approvals/{number}/")
        reason = "The evidence is complete, and the next setting up does not keep the objective."
        values: dict[str, str | list[str]] = {"decision": "approve", "reason": reason, "password": approver.password}
        approver.send(page, values, action="/decide/")
        self.say(f"approved by {account}, a third person, with their password")

    def issue(self, number: int) -> str:
        """As the signer; returns the statement's number."""
        signer = self.as_("signer")
        page = signer.get(f"/approvals/{number}/")
        page = signer.send(page, {"password": signer.password}, action="/statement/")
        found = re.match(r"/statements/([\w-]+)/", page.path)
        if not found:
            raise JourneyError(f"issuing led to {page.path}: {page.words()[:300]}")
        self.say(f"statement {found[1]} signed by signer")
        return found[1]

    def download(self, statement: str, folder: Path) -> list[Path]:
        """The JSON and the PDF, as a viewer gets them."""
        viewer = self.as_("viewer")
        files = []
        for suffix in ("json", "pdf"):
            file = folder / f"{statement}.{suffix}"
            file.write_bytes(viewer.download(f"/statements/{statement}.{suffix}"))
            files.append(file)
        return files


def choice(page: Page, name: str, label: str) -> str:
    """The value of the option whose words begin with `label`."""
    options = page.form(name).options.get(name, [])
    for value, words in options:
        if value and words.startswith(label):
            return value
    raise PageError(f"{page.path} offers no {name} called {label}: {[words for _, words in options]}")


def describe(refusal: PageError) -> str:
    """The page's own words, or that it offers this person no form at all."""
    said = str(refusal)
    return (
        "the page offers this person no form for it" if " has no form with " in said else said.rpartition(": ")[2][:160]
    )
