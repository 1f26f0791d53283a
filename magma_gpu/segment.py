"""Long turns into parts that fit an encoder, and events into episodes; both by fixed rules, without a model.

Parts are slices of the text: joined they are the text again, to the character. The length is an estimate in tokens,
so that a store does not depend on one tokenizer; what still does not fit is cut by the encoder and marked there.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# A run of letters or digits, or one other visible character. Scripts without spaces count a token a character.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_PIECE = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+|[^\s]")
# A run of marks is tried from its first one alone, so that a text of nothing but dots takes no quadratic time.
_SENTENCE_END = re.compile(
    r"(?<![.!?\u2026\u061f\u0964])[.!?\u2026\u061f\u0964]+[\"'\u201d\u2019)\]]*\s+|[\u3002\uff01\uff1f]+[\u300d\u300f\uff09]*\s*|\n+\s*"
)
_SPACE = re.compile(r"\s+")
# Letters of a word that fit one token before it is likely to be cut into pieces of about three.
_WHOLE_WORD = 9
_LETTERS_A_PIECE = 3


def estimate_tokens(text: str) -> int:
    """Estimates, rather high, how many word pieces a text has."""
    total = 0
    for piece in _PIECE.finditer(text):
        length = piece.end() - piece.start()
        total += 1 if length <= _WHOLE_WORD else -(-length // _LETTERS_A_PIECE)
    return total


def split_text(text: str, max_tokens: int) -> list[str]:
    """Splits a text at sentence ends into parts of at most `max_tokens` estimated tokens.

    A sentence that is longer is split at white space, a word that is longer between characters. Joining the parts
    gives the text.
    """
    # A token has at least one character, so a short text needs no count.
    if len(text) <= max_tokens or estimate_tokens(text) <= max_tokens:
        return [text]
    pieces = []
    for sentence in _cut(text, _SENTENCE_END):
        if estimate_tokens(sentence) <= max_tokens:
            pieces.append(sentence)
            continue
        for word in _cut(sentence, _SPACE):
            if estimate_tokens(word) <= max_tokens:
                pieces.append(word)
            else:
                pieces.extend(word[i : i + max_tokens] for i in range(0, len(word), max_tokens))
    return _pack(pieces, max_tokens)


def _cut(text: str, ends: re.Pattern[str]) -> list[str]:
    """Cuts after each match; nothing is lost."""
    cuts = [0, *(m.end() for m in ends.finditer(text)), len(text)]
    return [text[a:b] for a, b in zip(cuts, cuts[1:], strict=False) if b > a]


def _pack(pieces: Sequence[str], max_tokens: int) -> list[str]:
    parts: list[str] = []
    current, size = "", 0
    for piece in pieces:
        # Two pieces of one word are more tokens together than apart.
        inside = bool(current) and not current[-1].isspace()
        total = estimate_tokens(current + piece) if inside else size + estimate_tokens(piece)
        if current and total > max_tokens:
            parts.append(current)
            current, total = "", estimate_tokens(piece)
        current += piece
        size = total
    # A tail without a visible character is no part of its own.
    if parts and not current.strip():
        parts[-1] += current
    elif current:
        parts.append(current)
    return parts


@dataclass(frozen=True, slots=True)
class EpisodeRun:
    """A run of events of one session: indices into the events given, both ends included."""

    first: int
    last: int


def find_episodes(
    times: Sequence[int | None], parts: Sequence[int], *, gap_min: float, max_turns: int
) -> list[EpisodeRun]:
    """Cuts the events of one session, in their order, into episodes.

    A new episode starts after a pause longer than `gap_min` minutes, and when the present one has `max_turns` turns;
    the parts of a turn stay together.

    Args:
        times: each event's time in UTC microseconds, None where unknown.
        parts: each event's part number; 0 starts a turn.
    """
    runs: list[EpisodeRun] = []
    first, turns = 0, 0
    for i, (time, part) in enumerate(zip(times, parts, strict=True)):
        if part == 0:
            before = times[i - 1] if i else None
            pause = time is not None and before is not None and time - before > gap_min * 60e6
            if i and (pause or turns >= max_turns):
                runs.append(EpisodeRun(first, i - 1))
                first, turns = i, 0
            turns += 1
    if times:
        runs.append(EpisodeRun(first, len(times) - 1))
    return runs


def episode_title(session_title: str | None, text: str) -> str:
    """A short label: the first words of the first event, after the session's title where it has one."""
    words = " ".join(text.split())
    short = words if len(words) <= 60 else words[:60].rsplit(" ", 1)[0] + "\u2026"
    return f"{session_title}: {short}" if session_title else short
