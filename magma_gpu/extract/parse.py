"""Reads a language model's answer about a window: repairs its JSON where that is safe, and believes only what
fits.

It never raises for what an answer holds. An index is kept as the model gave it, even one of no event: whether
a pair may become an edge is checked, and counted by reason, in `causal`. A name that does not stand in its
event goes to the events of the window in which it does, and is dropped where there is none.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from magma_gpu.causal import plain
from magma_gpu.extract.names import TYPES
from magma_gpu.extract.prompts import MAX_CAUSAL, MAX_EVIDENCE, MAX_MENTIONS, MAX_NAME
from magma_gpu.types import CausalPair, Mention, Outcome, Window

NO_OBJECT = "no JSON object in the answer"
NOT_JSON = "the JSON cannot be repaired"

_SYNONYMS = {
    "location": "place",
    "organization": "organisation",
    "org": "organisation",
    "company": "organisation",
    "people": "person",
    "object": "thing",
    "concept": "topic",
}
# An answer without a confidence is taken for neither sure nor a guess.
_DEFAULT_CONFIDENCE = 0.5
# Longer answers are no answers, and repair takes a pass over all of it.
_MAX_CHARACTERS = 1 << 20
# An answer has three levels.
_MAX_DEPTH = 16
_THOUGHTS = re.compile(r"<think>.*?</think>", re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[\]}])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What an answer says, and what was wrong with it."""

    # ok, repaired (some of it was mended or left out) or failed.
    status: str
    # Why it is not ok; None where it is.
    error: str | None
    mentions: tuple[Mention, ...]
    causal: tuple[CausalPair, ...]


def parse_answer(answer: str, window: Window) -> Parsed:
    """Returns what a model's answer says about a window.

    Args:
        answer: the text as generated; may be fenced, preceded by thoughts, or cut off.
        window: the window that was asked about.
    """
    value, mended = _load(answer)
    if value is None:
        return Parsed(status="failed", error=mended, mentions=(), causal=())
    left_out: Counter[str] = Counter()
    mentions = () if window.history else _mentions(value, window, left_out)
    causal = _causal(value, left_out)
    notes = [mended] if mended else []
    notes += [f"{reason} ({count})" for reason, count in sorted(left_out.items()) if count]
    return Parsed(
        status="repaired" if notes else "ok",
        error="; ".join(notes) or None,
        mentions=mentions,
        causal=causal,
    )


def outcome_of(answer: str, window: Window, *, prompt_hash: str, prompt_tokens: int, output_tokens: int) -> Outcome:
    """Returns the outcome of a window that was answered."""
    parsed = parse_answer(answer, window)
    return Outcome(
        window_id=window.window_id,
        prompt_hash=prompt_hash,
        status=parsed.status,
        error=parsed.error,
        mentions=parsed.mentions,
        causal=parsed.causal,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
    )


def _load(answer: str) -> tuple[dict[str, Any] | None, str | None]:
    """Returns the answer's object and what was mended, or None and why there is none."""
    text = answer.strip()
    value = _decode(text)
    if value is not None:
        return value, None
    text = _THOUGHTS.sub("", text)
    at = text.find("{")
    if at < 0 or len(text) > _MAX_CHARACTERS:
        return None, NO_OBJECT
    text = text[at:]
    end = text.rfind("}") + 1
    for candidate, note in (
        (text[:end], "text around the JSON"),
        (_TRAILING_COMMA.sub(r"\1", text[:end]), "trailing commas"),
    ):
        value = _decode(candidate)
        if value is not None:
            return value, note
    value = _decode(_TRAILING_COMMA.sub(r"\1", _close(text)))
    return (value, "cut off") if value is not None else (None, NOT_JSON)


def _decode(text: str) -> dict[str, Any] | None:
    try:
        # Not strict: line breaks inside strings are harmless here.
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _close(text: str) -> str:
    """Returns a cut-off text up to its last whole item, with its brackets closed."""
    open_brackets: list[str] = []
    quoted = escaped = False
    whole = (0, "")
    for at, c in enumerate(text):
        if quoted:
            if escaped:
                escaped = False
            elif c == "\\":
                escaped = True
            elif c == '"':
                quoted = False
        elif c == '"':
            quoted = True
        elif c in "{[":
            open_brackets.append("}" if c == "{" else "]")
            if len(open_brackets) > _MAX_DEPTH:
                return ""
            if c == "[":
                whole = (at + 1, "".join(reversed(open_brackets)))
        elif c in "}]":
            if not open_brackets or open_brackets.pop() != c:
                break
            whole = (at + 1, "".join(reversed(open_brackets)))
            if not open_brackets:
                break
    return text[: whole[0]] + whole[1]


def _items(value: dict[str, Any], names: tuple[str, ...], most: int, left_out: Counter[str]) -> list[dict[str, Any]]:
    found = next((value[name] for name in names if name in value), None)
    if found is None:
        left_out[f"no list of {names[0]}"] += 1
        return []
    if not isinstance(found, list):
        left_out[f"{names[0]} is no list"] += 1
        return []
    items = [item for item in found if isinstance(item, dict)]
    if len(items) < len(found):
        left_out[f"item of {names[0]} is no object"] += len(found) - len(items)
    if len(items) > most:
        left_out[f"too many {names[0]}"] += len(items) - most
    return items[:most]


def _index(value: object) -> int | None:
    """Returns a whole number written as such, as 1.0 or as "1"; else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,6}\s*", value):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e6:
        return int(value)
    return value if isinstance(value, int) and abs(value) < 1e6 else None


def _mentions(value: dict[str, Any], window: Window, left_out: Counter[str]) -> tuple[Mention, ...]:
    found: list[Mention] = []
    seen: set[tuple[int, str]] = set()
    ids: set[int] = set()
    texts = [plain(event.text) for event in window.events]
    told = "\n".join((*texts, *(plain(event.speaker) for event in window.events)))
    for item in _items(value, ("mentions", "entities"), MAX_MENTIONS, left_out):
        index = _index(item.get("event", item.get("id")))
        name = item.get("name")
        if index is None or not 0 <= index < len(window.events):
            left_out["mention: no such event"] += 1
            continue
        if "event" not in item:
            # Numbered entities: of those with one number the first counts.
            if index in ids:
                left_out["mention: number used again"] += 1
                continue
            ids.add(index)
        name = " ".join(_text(name).split())
        if not 0 < len(name) <= MAX_NAME:
            left_out["mention: no name"] += 1
            continue
        places = [index] if plain(name) and plain(name) in texts[index] else _places(plain(name), texts)
        if not places:
            left_out["mention: name not in the event"] += 1
        elif places != [index]:
            left_out["mention: name of another event"] += 1
        alias = " ".join(_text(item.get("alias_of")).split())
        # Only a name that somebody gave in this window, and only where the model's number was right.
        known = 0 < len(alias) <= MAX_NAME and plain(alias) != plain(name) and plain(alias) in told
        for place in places:
            if (place, name) in seen:
                left_out["mention: said twice"] += place == index
                continue
            seen.add((place, name))
            of = alias if known and place == index else ""
            found.append(Mention(index=place, surface=name, type=_type(item.get("type")), alias_of=of))
    return tuple(found)


def _places(name: str, texts: Sequence[str]) -> list[int]:
    """The events in which a name stands as words of its own: models find names better than they count events."""
    if not any(c.isalnum() for c in name):
        return []
    words = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return [at for at, text in enumerate(texts) if words.search(text)]


def _text(value: object) -> str:
    """Returns a string that can be stored; half a surrogate pair cannot."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def _type(value: object) -> str:
    kind = value.strip().lower() if isinstance(value, str) else ""
    kind = _SYNONYMS.get(kind, kind)
    return kind if kind in TYPES else "thing"


def _causal(value: dict[str, Any], left_out: Counter[str]) -> tuple[CausalPair, ...]:
    """Returns the pairs in the order of the answer, each with its indexes as given."""
    found: list[CausalPair] = []
    for item in _items(value, ("causal",), MAX_CAUSAL, left_out):
        cause, effect = _index(item.get("cause")), _index(item.get("effect"))
        if cause is None or effect is None:
            left_out["pair: no event number"] += 1
            continue
        confidence = _confidence(item.get("confidence", _DEFAULT_CONFIDENCE))
        if confidence is None:
            left_out["pair: confidence is no number from 0 to 1"] += 1
            continue
        evidence = item.get("evidence")
        evidence = _text(evidence).strip()[:MAX_EVIDENCE]
        found.append(CausalPair(cause=cause, effect=effect, evidence=evidence, confidence=confidence))
    return tuple(found)


def _confidence(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and 0 <= number <= 1 else None
