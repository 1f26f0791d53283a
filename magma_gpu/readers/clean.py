"""Makes strings from logs safe to store, and values usable as ids, texts and times.

It decides nothing about turns (turns.py does). Ids keep their bytes except for lone surrogates, which no
UTF-8 column can hold; texts are also normalised to NFC.
"""

import json
import math
import re
import unicodedata

from magma_gpu.types import RawTime

_SURROGATES = re.compile("[\ud800-\udfff]")
_EXCERPT_CHARS = 120
# Types of content parts that stand for something else than words of the speaker.
_NO_TEXT_PARTS = frozenset({"image", "image_url", "input_image", "image_asset_pointer", "image_file"})


class UnusableError(Exception):
    """A value that cannot be used for its field; the message is the reason of the reject."""


def clean_id(text: str) -> str:
    """Returns the text with lone surrogates replaced by U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


def clean_text(text: str) -> str:
    """Returns the text in NFC, without NUL, with lone surrogates replaced by U+FFFD."""
    return unicodedata.normalize("NFC", clean_id(text).replace("\0", ""))


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: only white space, control and format characters."""
    return not text or all(c.isspace() or unicodedata.category(c) in ("Cf", "Cc") for c in text)


def is_missing(value: object) -> bool:
    """Whether a value stands for nothing: None, or the NaN of a data frame's empty cell."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def id_text(value: object) -> str:
    """Returns an id as text; whole numbers become their decimal digits.

    Raises:
        UnusableError: the id is blank, or neither text nor a whole number.
    """
    if isinstance(value, str) and not is_blank(value):
        return clean_id(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return str(int(value))
    raise UnusableError("unusable id")


def id_or_none(value: object) -> str | None:
    """Returns an id as text, or None where it is missing or cannot be used."""
    try:
        return id_text(value)
    except UnusableError:
        return None


def name_or_none(value: object) -> str | None:
    """Returns a name, stripped, or None where there is none."""
    if isinstance(value, str):
        text = clean_text(value).strip()
        return None if is_blank(text) else text
    return id_or_none(value)


def raw_time(value: object) -> RawTime:
    """Returns a stamp as it is, or None for what cannot be one."""
    if isinstance(value, str):
        return None if is_blank(value) else clean_id(value).replace("\0", "")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def content_text(value: object) -> tuple[str, str | None]:
    """Reads a message's content: a string, a content part, or a list of parts.

    Returns:
        The text ("" where there is none), its parts joined by line ends, and the alt text of images or None.

    Raises:
        UnusableError: the content is of a type that holds no text.
    """
    if is_missing(value):
        return "", None
    if isinstance(value, str):
        return clean_text(value), None
    inner: list[object]
    if isinstance(value, dict):
        parts = value.get("parts")
        inner = parts if isinstance(parts, list) else [value]
    elif isinstance(value, list):
        inner = value
    else:
        raise UnusableError("text of a wrong type")
    texts: list[str] = []
    captions: list[str] = []
    num_strange = 0
    for part in inner:
        if isinstance(part, str):
            texts.append(clean_text(part))
        elif isinstance(part, dict):
            _read_part(part, texts, captions)
        elif not is_missing(part):
            num_strange += 1
    texts = [text for text in texts if not is_blank(text)]
    if num_strange and not texts and not captions:
        raise UnusableError("text of a wrong type")
    return "\n".join(texts), "\n".join(captions) or None


def _read_part(part: dict[str, object], texts: list[str], captions: list[str]) -> None:
    kinds = (part.get("type"), part.get("content_type"))
    if any(isinstance(kind, str) and kind in _NO_TEXT_PARTS for kind in kinds):
        for key in ("alt", "alt_text", "caption"):
            alt = part.get(key)
            if isinstance(alt, str) and not is_blank(alt):
                captions.append(clean_text(alt))
                return
        return
    for key in ("text", "content", "refusal"):
        text = part.get(key)
        if isinstance(text, dict):
            text = text.get("value")
        if isinstance(text, str):
            texts.append(clean_text(text))
            return


def excerpt(value: object) -> str:
    """Returns the first characters of a value: a text as it is, anything else as JSON."""
    if not isinstance(value, str):
        try:
            value = json.dumps(value, ensure_ascii=False, default=str)
        except (RecursionError, ValueError, TypeError):
            value = type(value).__name__
    return clean_id(value[:_EXCERPT_CHARS].replace("\0", ""))


def shown(text: str, num_chars: int) -> str:
    """Returns the beginning of what a log says as a message may show it: one line, and nothing a terminal obeys."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(plain.split())[:num_chars]
