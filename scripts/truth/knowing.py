"""What is true of a simulated runtime, from its parameters alone: no engine, no wire, no statistics, many requests.

A closed loop of n clients is stepped through the profile's own state machine, which is what the profile means. Times are
seconds, rates per second.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.engine import lengths
from benchmarks.engine.dice import Dice
from benchmarks.engine.plan import ClassPlan
from benchmarks.simulator.card import Card
from benchmarks.simulator.model import Engine
from benchmarks.simulator.profiles import Profile

MIXED = "mixed"
REQUESTS = 1500
WARM = 60
BLOCK = 100
LEAST_OF_A_CLASS = 400


@dataclass(frozen=True)
class Client:
    """What one client of a closed loop asks: any of `classes` by their weights."""

    classes: Sequence[ClassPlan]


def shuffled(classes: Sequence[ClassPlan], dice: random.Random) -> Iterator[ClassPlan]:
    """Classes in chance's order, and of every BLOCK requests as many of each as its weight says."""
    total = sum(one.weight for one in classes)
    while True:
        block = [one for one in classes for _ in range(round(BLOCK * one.weight / total))]
        dice.shuffle(block)
        yield from block


@dataclass(frozen=True)
class Ran:
    """One closed loop. `took_s` by class, every request of it; `per_s` the rate at which answers ended."""

    took_s: Mapping[str, np.ndarray]
    ended_s: float
    kv_peak_tokens: int
    preemptions: int

    @property
    def per_s(self) -> float:
        return sum(len(times) for times in self.took_s.values()) / self.ended_s

    def p95_s(self, name: str) -> float:
        return float(np.quantile(self.took_s[name], 0.95, method="inverted_cdf"))

    def good_per_s(self, limits_s: Mapping[str, float]) -> float:
        good = sum(int((times <= limits_s.get(name, np.inf)).sum()) for name, times in self.took_s.items())
        return good / self.ended_s


def closed_loop(
    profile: Profile,
    clients: Sequence[Client],
    *,
    kv_tokens: int | None = None,
    requests: int = REQUESTS,
    seed: int = 1,
) -> Ran:
    """Each client asks again as soon as its answer has ended; the first WARM answers count for nothing."""
    dice, draws = random.Random(seed), random.Random(seed + 1)
    kinds = {id(client.classes): shuffled(client.classes, draws) for client in clients}
    asked = [kinds[id(client.classes)] for client in clients]
    engine = Engine(profile, kv_tokens=kv_tokens, dice=dice)
    began: dict[int, tuple[int, str, float]] = {}
    took: dict[str, list[float]] = {}
    number, ended, warm_s, peak = 0, 0, 0.0, 0

    def ask(client: int, now_s: float) -> None:
        nonlocal number
        chosen = next(asked[client])
        prompt, output = lengths.draw(chosen, Dice(seed, "truth", number))
        began[number] = (client, chosen.name, now_s)
        engine.submit(number, prompt, output, now_s=now_s)
        number += 1

    free = list(range(len(clients)))
    now_s = 0.0
    while ended < requests + WARM:
        while free:
            ask(free.pop(), now_s)
        peak = max(peak, engine.kv_used_tokens)
        now_s = engine.next_event_s or now_s
        for token in engine.advance(now_s):
            if not token.last:
                continue
            client, name, since_s = began.pop(token.key)
            ended += 1
            if ended == WARM:
                warm_s = now_s
            if ended > WARM:
                took.setdefault(name, []).append(token.at_s - since_s)
            free.append(client)
    arrays = {name: np.array(times) for name, times in took.items()}
    return Ran(arrays, now_s - warm_s, peak, engine.counters.preemptions)


@dataclass(frozen=True)
class Figures:
    """What is true at one setting: answers and good answers a second, `kv_peak_tokens` of all sequences together,
    `temperature_c` once it has settled."""

    setting: int
    per_s: float
    good_per_s: float
    p95_s: Mapping[str, float]
    vram_share: float
    temperature_c: float
    preemptions: int
    kv_peak_tokens: int


def combined(per_s: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Classes that were run alone, as a mix: weighted harmonic mean. Zero where one of them is."""
    total = sum(weights[name] for name in per_s)
    if any(rate <= 0 for rate in per_s.values()):
        return 0.0
    return 1 / sum(weights[name] / total / rate for name, rate in per_s.items())


@dataclass(frozen=True)
class Loops:
    """One setting, run in the mix or one class after the other as the grid does it."""

    classes: Sequence[ClassPlan]
    setting: int
    ran: Sequence[Ran]

    @property
    def mixed(self) -> bool:
        return len(self.ran) < len(self.classes)

    def p95_s(self, name: str) -> float:
        return next(one.p95_s(name) for one in self.ran if name in one.took_s)

    @property
    def kv_peak_tokens(self) -> int:
        return max(one.kv_peak_tokens for one in self.ran)

    def good_per_s(self, limits_s: Mapping[str, float]) -> float:
        if self.mixed:
            return self.ran[0].good_per_s(limits_s)
        per_s = {c.name: one.good_per_s(limits_s) for c, one in zip(self.classes, self.ran, strict=True)}
        return combined(per_s, {c.name: c.weight for c in self.classes})

    @property
    def per_s(self) -> Mapping[str, float]:
        """Answers a second of each class, while it runs."""
        if self.mixed:
            total = sum(len(times) for times in self.ran[0].took_s.values())
            return {name: self.ran[0].per_s * len(times) / total for name, times in self.ran[0].took_s.items()}
        return {c.name: one.per_s for c, one in zip(self.classes, self.ran, strict=True)}


def loops(profile: Profile, classes: Sequence[ClassPlan], setting: int, *, mixed: bool, seed: int) -> Loops:
    parts = [classes] if mixed else [[one] for one in classes]
    requests = max(LEAST_OF_A_CLASS, REQUESTS // len(parts))
    ran = [closed_loop(profile, [Client(part)] * setting, requests=requests, seed=seed) for part in parts]
    return Loops(classes, setting, ran)


def figures(profile: Profile, found: Loops, limits_s: Mapping[str, float]) -> Figures:
    """What `found` comes to on the profile's card, under these limits."""
    return Figures(
        setting=found.setting,
        per_s=found.good_per_s({}),
        good_per_s=found.good_per_s(limits_s),
        p95_s={c.name: found.p95_s(c.name) for c in found.classes},
        vram_share=vram_share(profile, found.setting, found.kv_peak_tokens),
        temperature_c=settled_c(profile, found.setting),
        preemptions=max(one.preemptions for one in found.ran),
        kv_peak_tokens=found.kv_peak_tokens,
    )


def vram_share(profile: Profile, setting: int, kv_tokens: float) -> float:
    card = profile.card
    if card is None:
        return 0.0
    active = min(setting, profile.active_sequences)
    used = card.weights_bytes + active * card.workspace_bytes + kv_tokens * card.kv_bytes_per_token
    return min(used, card.vram_total_bytes) / card.vram_total_bytes


def settled_c(profile: Profile, setting: int) -> float:
    """Of a card that has been under this load for long."""
    if profile.card is None:
        return 0.0
    power_w = Card(profile.card, now_s=0.0).power_target_w(min(setting, profile.active_sequences))
    return profile.card.ambient_c + power_w * profile.card.rise_c_per_w


@dataclass(frozen=True)
class Slowdown:
    """p95 of the shortest class, by one client alone and beside clients that keep asking the longest."""

    class_name: str
    alone_s: float
    beside_s: float

    @property
    def ratio(self) -> float:
        return self.beside_s / self.alone_s


def slowdown(profile: Profile, classes: Sequence[ClassPlan], *, long_clients: int, seed: int) -> Slowdown | None:
    """None with one class."""
    if len(classes) < 2:
        return None
    ordered = sorted(classes, key=_tokens)
    short, long = ordered[0], ordered[-1]
    alone = closed_loop(profile, [Client([short])], requests=LEAST_OF_A_CLASS, seed=seed)
    crowd = [Client([short]), *[Client([long])] * long_clients]
    beside = closed_loop(profile, crowd, requests=REQUESTS // 2, seed=seed)
    return Slowdown(short.name, alone.p95_s(short.name), beside.p95_s(short.name))


def _tokens(one: ClassPlan) -> float:
    return lengths.quantile(one.prompt_tokens, 0.5) + lengths.quantile(one.output_tokens, 0.5)
