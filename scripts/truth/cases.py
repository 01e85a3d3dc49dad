"""Random grids by number: a runtime with a knee, a cap or a fault of its own, a workload, and an objective whose limit is
put between what two settings really take. Everything follows from the number alone."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from benchmarks.engine.plan import (
    ClassLimits,
    ClassPlan,
    GridLimits,
    Lognormal,
    ObjectiveTerms,
    ProductionMix,
    RetryPolicy,
)
from benchmarks.simulator.faults import Fault
from benchmarks.simulator.profiles import GIB, CardProfile, Profile
from benchmarks.simulator.server import Reject
from scripts.truth import knowing
from scripts.truth.knowing import Figures, Loops, Slowdown

SCALES = ((1, 2, 4, 8), (1, 2, 3, 4, 6), (1, 2, 4, 6, 8))
KINDS = (
    "latency", "latency", "latency", "vram", "vram", "queue", "preemptions", "errors", "temperature", "flat", "room",
    "impossible",
)  # fmt: skip
CONTEXT_TOKENS = 2048
LONG_CLIENTS = 2
CLEAR = 1.25
ASKED_SHARE = 0.95
"""That must succeed and be valid: what a few dozen requests of a class can prove."""
OF_A_CLASS = 45
"""Requests of each class in each window, at the lowest setting and on average."""
RETRIES = (
    None,
    RetryPolicy(kind="none"),
    RetryPolicy(kind="immediate", tries=4),
    RetryPolicy(kind="backoff", tries=4, jitter=False, honours_retry_after=True, budget_share=0.1),
    RetryPolicy(kind="backoff", tries=4, jitter=True, honours_retry_after=True, budget_share=0.1),
)
PUBLISHED = (
    "",
    "",
    "p95 end to end is 0.8 s (n = 2,400)",
    "The average answer takes 0.4 s",
    "The server does 800 tokens/s",
)


@dataclass(frozen=True)
class Case:
    """One grid. `figures` are what is true at each setting, `slowdown` of short requests beside long ones (None with one
    class). `alike` is the declared production mix: None, as tested, wider, or longer than it."""

    number: int
    kind: str
    profile: Profile
    classes: tuple[ClassPlan, ...]
    settings: tuple[int, ...]
    mixed: bool
    limits: GridLimits
    figures: tuple[Figures, ...]
    slowdown: Slowdown | None
    queue_cap: int | None
    reject: Reject
    error_share: float
    production: str
    geometry: str
    probes: frozenset[str]
    window_s: float
    faults: Mapping[Fault, float] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        return 1000 + self.number

    @property
    def room(self) -> float:
        """Requests that are with the runtime at once at the most."""
        return float("inf") if self.queue_cap is None else self.profile.active_sequences + self.queue_cap


def draw(number: int) -> Case:
    dice = random.Random(f"truth {number}")
    kind = KINDS[number % len(KINDS)] if number < len(KINDS) else dice.choice(KINDS)
    settings = dice.choice(SCALES)
    classes = _classes(dice)
    mixed = len(classes) > 1 and dice.random() < 0.7
    profile = _profile(dice, settings)
    seed = 77_000 + number
    loops = [knowing.loops(profile, classes, n, mixed=mixed, seed=seed) for n in settings]
    place = dice.choice(_clear(loops) if kind == "latency" else range(len(settings) - 1))
    wished = _with_cause(dice, kind, profile, loops, place)
    limits_s = _limits_s(dice, kind, loops, place)
    if (wished.active_sequences, wished.kv_tokens) != (profile.active_sequences, profile.kv_tokens):
        loops = [knowing.loops(wished, classes, n, mixed=mixed, seed=seed) for n in settings]
    profile, queue_cap = wished, _queue_cap(dice, kind, wished, settings, place)
    figures = tuple(knowing.figures(profile, one, limits_s) for one in loops)
    slowdown = knowing.slowdown(profile, classes, long_clients=LONG_CLIENTS, seed=seed) if len(classes) > 1 else None
    error_share = dice.uniform(0.08, 0.12) if kind == "errors" else 0.0
    production = dice.choice(("", "alike", "alike", "wider", "longer"))
    terms = ObjectiveTerms(
        max_slowdown=(slowdown.ratio if slowdown else 2.0) * dice.choice((0.6, 1.6, 1.6, 1.6)), retry=dice.choice(RETRIES),
        production=_production(production, classes), published=dice.choice(PUBLISHED),
    )  # fmt: skip
    limits = GridLimits(
        success_share=ASKED_SHARE,
        validity_share=ASKED_SHARE,
        classes={name: ClassLimits(e2e_s=s) for name, s in limits_s.items()},
        terms=terms,
    )
    probes = {name for name in ("overload", "fairness", "retry_storm") if dice.random() < 0.8}
    return Case(
        number=number, kind=kind, profile=profile, classes=classes, settings=settings, mixed=mixed, limits=limits,
        figures=figures, slowdown=slowdown, queue_cap=queue_cap, error_share=error_share, production=production,
        reject=dice.choice((Reject.HTTP_503, Reject.HTTP_429, Reject.IN_STREAM)),
        geometry=dice.choice(("known", "known", "unknown", "wrong")), probes=frozenset(probes),
        window_s=max(OF_A_CLASS / rate for rate in loops[0].per_s.values()),
        faults={Fault.HTTP_500: error_share} if error_share else {},
    )  # fmt: skip


def _clear(loops: Sequence[Loops]) -> list[int]:
    """Where the next setting up takes so much longer in every class that some hundred requests can tell; at least one."""
    names = [c.name for c in loops[0].classes]
    times = [min(loops[i + 1].p95_s(n) / loops[i].p95_s(n) for n in names) for i in range(len(loops) - 1)]
    return [i for i, one in enumerate(times) if one >= CLEAR] or [times.index(max(times))]


def _classes(dice: random.Random) -> tuple[ClassPlan, ...]:
    """One to three, from a few dozen tokens up; spread as real ones are, or hardly."""
    spread = dice.choice((0.03, 0.2, 0.35))
    prompt, output = dice.uniform(16, 40), dice.uniform(5, 8)
    found = []
    for name, weight in (("short", 45), ("median", 30), ("long", 25))[: dice.choice((1, 2, 2, 3))]:
        found.append(
            ClassPlan(
                name=name, weight=weight, prompt_tokens=_around(prompt, spread), output_tokens=_around(output, 0.2)
            )
        )
        prompt, output = prompt * dice.uniform(1.5, 2.5), output * dice.uniform(1.2, 1.7)
    return tuple(found)


def _around(median: float, sigma: float) -> Lognormal:
    low, high = max(1, round(median * (1 - 2 * sigma))), round(median * (1 + 3 * sigma)) + 1
    return Lognormal(median=median, sigma=sigma, low=low, high=high)


def _profile(dice: random.Random, settings: Sequence[int]) -> Profile:
    """One sequence alone does 40 to 100 tokens a second; up to the knee more of them do more, beyond it none."""
    alone, knee, power = dice.uniform(40, 100), dice.choice(settings[1:]), dice.uniform(0.55, 0.85)
    curve = tuple((n, alone * min(n, knee) ** power) for n in range(1, 17))
    return Profile(
        name="truth", model="headroom-simulated-truth", decode_curve=curve,
        prefill_tokens_per_s=dice.uniform(2000, 10000), tokens_per_step=256, step_sigma=dice.uniform(0.03, 0.12),
        active_sequences=max(settings), context_tokens=CONTEXT_TOKENS, kv_tokens=16_384, card=_card(dice),
    )  # fmt: skip


def _card(dice: random.Random) -> CardProfile:
    return CardProfile(
        name="Simulated 24 GiB card", vram_total_bytes=24 * GIB, weights_bytes=int(dice.uniform(6, 10) * GIB),
        workspace_bytes=int(dice.uniform(0.3, 0.6) * GIB), kv_bytes_per_token=200 * 1024, workspace_release_s=2.0,
        idle_w=35.0, cap_w=dice.uniform(250, 420), power_sequences=2.5, power_lag_s=0.2, ambient_c=25.0,
        rise_c_per_w=0.1, thermal_lag_s=1.0,
    )  # fmt: skip


def _with_cause(dice: random.Random, kind: str, profile: Profile, loops: Sequence[Loops], place: int) -> Profile:
    """The profile with its limit between the setting at `place` and the next one up."""
    here, above = loops[place], loops[place + 1]
    card = profile.card
    assert card is not None
    if kind == "queue":
        return replace(profile, active_sequences=max(1, above.setting - 1 - dice.choice((0, 1))))
    if kind == "vram":
        # Weights, workspace and KV cache of one above are over 92 % by as much as those here are under it.
        sequences = (here.setting + above.setting) / 2
        tokens = (here.kv_peak_tokens + above.kv_peak_tokens) / 2
        used = card.weights_bytes + sequences * card.workspace_bytes + tokens * card.kv_bytes_per_token
        return replace(profile, card=replace(card, vram_total_bytes=int(used / 0.92)))
    if kind == "preemptions":
        low, high = here.kv_peak_tokens * 1.1, above.kv_peak_tokens
        return replace(profile, kv_tokens=round(low + 0.2 * max(0.0, high - low)))
    if kind == "temperature":
        rise = [knowing.settled_c(profile, one.setting) - card.ambient_c for one in (here, above)]
        return replace(profile, card=replace(card, rise_c_per_w=card.rise_c_per_w * 60.0 / (sum(rise) / 2)))
    return profile


def _queue_cap(dice: random.Random, kind: str, profile: Profile, settings: Sequence[int], place: int) -> int | None:
    """How many may wait: without limit, or enough for every setting, or one fewer than the next one up would need."""
    if kind == "queue":
        return settings[place + 1] - 1 - profile.active_sequences
    return None if dice.random() < 0.2 else max(settings) + dice.choice((2, 4, 8)) - profile.active_sequences


def _limits_s(dice: random.Random, kind: str, loops: Sequence[Loops], place: int) -> dict[str, float]:
    """End to end, per class. Where latency is what limits, between the setting at `place` and the next one up, at the
    same part of the way for each class; else well above the highest setting, or below the lowest."""
    names = [c.name for c in loops[0].classes]
    if kind == "impossible":
        return {name: 0.7 * loops[0].p95_s(name) for name in names}
    if kind != "latency":
        return {name: dice.uniform(1.5, 2.0) * loops[-1].p95_s(name) for name in names}
    part = dice.uniform(0.4, 0.6)
    return {name: loops[place].p95_s(name) ** (1 - part) * loops[place + 1].p95_s(name) ** part for name in names}


def _production(kind: str, classes: Sequence[ClassPlan]) -> ProductionMix | None:
    """What production is declared to send, beside what is tested: quantiles of prompt tokens."""
    from scripts.truth.expecting import prompt_quantile

    if not kind:
        return None
    p10, p90, p95 = (prompt_quantile(classes, share) for share in (0.10, 0.90, 0.95))
    if kind == "alike":
        return ProductionMix(p10_tokens=p10, p90_tokens=0.95 * p90, p95_tokens=0.9 * p95, source="declared")
    if kind == "wider":
        return ProductionMix(p10_tokens=p10 / 3, p90_tokens=p90, p95_tokens=0.9 * p95, source="declared")
    return ProductionMix(p10_tokens=p10, p90_tokens=p90, p95_tokens=1.5 * p95, source="declared")
