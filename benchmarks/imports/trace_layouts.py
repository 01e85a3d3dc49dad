"""The public layouts, known by their columns and never by the file's name.

Facts of each: `prompt`, `output` and `time` are plain names of columns, `unit` the time's unit. The attribution goes with
what is made of the lengths. A fork with the right columns and other data is found by its numbers (`trace_warnings`).
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.imports.trace_text import Cell, TraceRefused, plain_name
from benchmarks.imports.trace_values import UNIT_S, is_stamp

AZURE = "Azure LLM inference trace {year}, Azure Public Dataset; {paper}"
_MOONCAKE = "Mooncake FAST25 release; Qin et al., Mooncake, FAST 2025"


@dataclass(frozen=True, slots=True)
class Layout:
    """`block_tokens`: tokens per hashed block of a prompt, where the layout lists them; it differs between sources."""

    key: str
    title: str
    columns: frozenset[str]
    prompt: str
    output: str
    time: str | None
    unit: str
    attribution: str = ""
    licence: str = ""
    block_tokens: int | None = None


def _columns(names: str) -> frozenset[str]:
    return frozenset(names.split())


# From the one with most columns to the one with fewest: the first whose columns are all there is it.
LAYOUTS = (
    Layout(
        "qwen-bailian", "Qwen-Bailian usage trace",
        _columns("chatid parentchatid timestamp inputlength outputlength type turn hashids"),
        "inputlength", "outputlength", "timestamp", "s",
        "Qwen-Bailian usage traces, anonymised, Alibaba", "Apache-2.0", 16,
    ),
    Layout(
        "burstgpt-sessions", "BurstGPT with sessions",
        _columns("timestamp sessionid elapsedtime model requesttokens responsetokens totaltokens logtype"),
        "requesttokens", "responsetokens", "timestamp", "s", "BurstGPT, HPMLL; Wang et al.", "CC BY 4.0",
    ),
    Layout(
        "burstgpt", "BurstGPT", _columns("timestamp model requesttokens responsetokens totaltokens logtype"),
        "requesttokens", "responsetokens", "timestamp", "s", "BurstGPT, HPMLL; Wang et al.", "CC BY 4.0",
    ),
    Layout(
        "azure-multimodal", "Azure LMM inference trace", _columns("timestamp numimages contexttokens generatedtokens"),
        "contexttokens", "generatedtokens", "timestamp", "stamp",
    ),
    Layout(
        "azure", "Azure LLM inference trace", _columns("timestamp contexttokens generatedtokens"),
        "contexttokens", "generatedtokens", "timestamp", "stamp",
    ),
    Layout(
        "mooncake", "Mooncake trace", _columns("timestamp inputlength outputlength hashids"),
        "inputlength", "outputlength", "timestamp", "ms", _MOONCAKE, "Apache-2.0", 512,
    ),
    Layout(
        "mooncake-counts", "Mooncake trace, blocks counted",
        _columns("timestamp inputlength outputlength hashidscount"),
        "inputlength", "outputlength", "timestamp", "ms", _MOONCAKE, "Apache-2.0", 512,
    ),
    Layout(
        "vidur", "Vidur trace", _columns("arrivedat numprefilltokens numdecodetokens"),
        "numprefilltokens", "numdecodetokens", "arrivedat", "s", "Vidur, Microsoft", "MIT",
    ),
    Layout(
        "vidur-lengths", "Vidur lengths", _columns("numprefilltokens numdecodetokens"),
        "numprefilltokens", "numdecodetokens", None, "s", "Vidur, Microsoft", "MIT",
    ),
)  # fmt: skip

# Names that people give to the columns of their own files, most telling first.
_PROMPT_NAMES = (
    "prompttokens",
    "inputtokens",
    "contexttokens",
    "requesttokens",
    "numprefilltokens",
    "promptlength",
    "inputlength",
    "promptlen",
    "inputlen",
    "tokensin",
    "intokens",
    "nprompt",
    "isl",
    "prompt",
    "input",
)
_OUTPUT_NAMES = (
    "outputtokens",
    "completiontokens",
    "generatedtokens",
    "responsetokens",
    "answertokens",
    "numdecodetokens",
    "outputlength",
    "outputlen",
    "responselength",
    "tokensout",
    "outtokens",
    "ngen",
    "osl",
    "output",
    "completion",
    "response",
    "answer",
)
_TIME_NAMES = (
    "timestamp",
    "time",
    "arrivedat",
    "arrivaltime",
    "arrival",
    "arrivals",
    "offset",
    "starttime",
    "start",
    "requesttime",
    "createdat",
    "receivedat",
    "date",
    "datetime",
    "t",
)
_UNIT_ENDINGS = ("ms", "us", "ns", "s", "seconds", "sec")
_UNIT_WORDS = {"seconds": "s", "sec": "s"}


@dataclass(frozen=True, slots=True)
class Columns:
    """What a person says about an own file: names of columns, and the unit of its times. Empty: recognise it."""

    prompt: str = ""
    output: str = ""
    time: str = ""
    unit: str = ""


def layout_of(names: list[str], first_row: list[Cell], said: Columns) -> tuple[Layout, list[str]]:
    """The layout of a table, with notes on what was taken for what. Raises TraceRefused with a sentence."""
    plain = {plain_name(name): cell for name, cell in zip(names, first_row, strict=False)}
    if len(plain) < len(names):
        raise TraceRefused("Two columns of the file have the same name.")
    if said == Columns():
        for layout in LAYOUTS:
            if layout.columns <= plain.keys():
                return layout, []
    return _own(names, plain, said)


def _own(names: list[str], plain: dict[str, Cell], said: Columns) -> tuple[Layout, list[str]]:
    prompt = _found(said.prompt, _PROMPT_NAMES, plain, names, "prompt tokens")
    output = _found(said.output, _OUTPUT_NAMES, plain, names, "answer tokens")
    time, unit = _time(said, plain, names)
    if len({prompt, output, time}) < 3:
        raise TraceRefused("Prompt tokens, answer tokens and time must be three different columns.")
    written = {plain_name(name): name for name in names}
    notes = [f"Prompt tokens were read from “{written[prompt]}”, answer tokens from “{written[output]}”."]
    if time is None:
        notes.append("No column of times was found: lengths only.")
    elif unit != "stamp":
        notes.append(f"Arrivals were read from “{written[time]}” as {unit}.")
    columns = frozenset({prompt, output} | ({time} if time else set()))
    return Layout("own", "Own file of lengths", columns, prompt, output, time, unit), notes


def _found(said: str, known: tuple[str, ...], plain: dict[str, Cell], names: list[str], what: str) -> str:
    wanted = (plain_name(said),) if said else known
    for name in wanted:
        if name in plain:
            return name
    listed = ", ".join(names)[:300]
    if said:
        raise TraceRefused(f"The file has no column “{said[:60]}”. It has: {listed}.")
    raise TraceRefused(f"Which column holds the {what}? None was recognised. The file has: {listed}.")


def _time(said: Columns, plain: dict[str, Cell], names: list[str]) -> tuple[str | None, str]:
    """Column and unit of the times. A unit is said, part of the name, or seconds; never guessed from the size."""
    if said.unit and said.unit not in UNIT_S:
        raise TraceRefused(f"“{said.unit[:20]}” is not a unit of time here: choose one of {', '.join(UNIT_S)}.")
    if said.time:
        name: str | None = _found(said.time, (), plain, names, "times")
    else:
        endings = ("", *_UNIT_ENDINGS)
        name = next((n + e for n in _TIME_NAMES for e in endings if n + e in plain), None)
    if name is None:
        return None, "s"
    if is_stamp(plain[name]):
        return name, "stamp"
    ending = next((e for e in _UNIT_ENDINGS if name.endswith(e) and name.removesuffix(e) in _TIME_NAMES), "s")
    return name, said.unit or _UNIT_WORDS.get(ending, ending)
