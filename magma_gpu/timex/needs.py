"""What a rule's pattern needs: sets of token classes of which every match holds one each.

It reads the few constructs that rules are written with and reports too little rather than too much, so that a rule
which is left out for want of a class could not have matched. What a reader would not guess: what a positive
lookaround asks for counts too, since it has to stand in the text as well.
"""

import re

_OPENING = re.compile(r"\((?:\?(?:<?[=!]|:))?")
_QUANTIFIER = re.compile(r"([?*+]|\{(\d+)[^}]*\})\??")


def needs(pattern: str) -> list[frozenset[str]]:
    """Returns the sets of classes of which a match of a pattern over class characters must hold one each."""
    found, at = _branches(pattern, 0)
    assert at == len(pattern)
    return found


def _branches(text: str, at: int) -> tuple[list[frozenset[str]], int]:
    """Reads alternatives up to the end or a closing parenthesis."""
    branches: list[list[frozenset[str]]] = [[]]
    while at < len(text) and text[at] != ")":
        if text[at] == "|":
            branches.append([])
            at += 1
            continue
        found, at = _item(text, at)
        quantifier = _QUANTIFIER.match(text, at)
        if quantifier is not None:
            at = quantifier.end()
            if quantifier[1] in "?*" or quantifier[2] == "0":
                continue
        branches[-1].extend(found)
    if len(branches) == 1:
        return branches[0], at
    # Of alternatives one class of each is known at most.
    smallest = [min(b, key=len) for b in branches if b]
    return ([frozenset().union(*smallest)] if len(smallest) == len(branches) else []), at


def _item(text: str, at: int) -> tuple[list[frozenset[str]], int]:
    """Reads a class, a group or an anchor."""
    opening = _OPENING.match(text, at)
    if opening is not None:
        found, at = _branches(text, opening.end())
        return ([] if opening[0].endswith("!") else found), at + 1
    if text[at] == "[":
        end = text.index("]", at)
        members = text[at + 1 : end]
        return ([] if members.startswith("^") else [frozenset(members)]), end + 1
    return ([] if text[at] in "^$" else [frozenset(text[at])]), at + 1
