"""Makes a frozen dataclass of plain values out of what TOML or a command line says; it knows no section of ours.

Values are not bent: a number where a word belongs is an error. Only what comes from a command line, where all is text,
is read as what the key wants.
"""

import difflib
import types
import typing
from typing import Any

from magma_gpu.errors import ConfigError


class Text(str):
    """A value from the command line, still to be converted."""


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the known one that is most like it, or all."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{near[0]}'?" if near else f"; known are {', '.join(known)}."


def make_section(section: str, kind: type, entries: dict[str, Any]) -> Any:
    """Makes a section of the values of its keys.

    Raises:
        ConfigError: an unknown key, or a value of the wrong type.
    """
    hints = typing.get_type_hints(kind)
    for key in entries:
        if key not in hints:
            raise ConfigError(f"Unknown config key '{section}.{key}'{nearest(key, hints)}")
    return kind(**{key: _convert(f"{section}.{key}", value, hints[key]) for key, value in entries.items()})


def _convert(name: str, value: Any, want: type | types.UnionType) -> Any:
    if isinstance(value, Text):
        text = str(value)
        try:
            if want is bool and text.lower() in ("true", "false"):
                return text.lower() == "true"
            if want in (int, float):
                return typing.cast(type, want)(text)
        except ValueError:
            pass
        else:
            if want is str:
                return text
    elif type(value) is want:
        return value
    elif want is float and type(value) is int:
        return float(value)
    kind = getattr(want, "__name__", str(want))
    raise ConfigError(f"{name} must be of type {kind} (got '{value}').")
