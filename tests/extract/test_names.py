"""What the rules take for a name, and of which type."""

import time

import pytest

from magma_gpu.extract.causes import find_causal
from magma_gpu.extract.names import find_names


def _names(*turns: tuple[str, str]) -> list[tuple[int, str, str]]:
    return [(m.index, m.surface, m.type) for m in find_names([t for _, t in turns], [s for s, _ in turns])]


def _of(text: str) -> dict[str, str]:
    return {surface: kind for _, surface, kind in _names(("Ines", text))}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("I met my cousin Rosalind in Porto.", {"Rosalind": "person", "Porto": "place"}),
        ("We saw Dr. Lee at the clinic.", {"Dr. Lee": "person"}),
        ("I bought it at O'Neill & Sons.", {"O'Neill & Sons": "organisation"}),
        ('They sell the "Big Blue" bag.', {"Big Blue": "thing"}),
        ("She studies at the University of Porto.", {"University of Porto": "organisation"}),
        ("Then John T. Doe walked along Lake Como.", {"John T. Doe": "person", "Lake Como": "place"}),
        ("Zorbadir said it was late.", {"Zorbadir": "person"}),
        ("Thanks Wilhelmina! See you.", {"Wilhelmina": "person"}),
        ("It was Melanie's idea.", {"Melanie": "person"}),
        ("Lunch with Anna from the bakery and Bob.", {"Anna from the bakery": "person", "Bob": "person"}),
        ("I like #sourdough a lot.", {"#sourdough": "topic"}),
        ("The NASA talk was good.", {"NASA": "topic"}),
    ],
)
def test_names(text: str, names: dict[str, str]) -> None:
    assert _of(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "...",
        "Hello! How are you?",
        "Yesterday I worked late. Painting calms me down. Nature is great.",
        "On Friday we go, in July too, or at Christmas.",
        "I'm so tired, I can't even think. OMG!",
        "The French food was GREAT and I loved every bit of it.",
        "THIS IS NOT A DRILL PEOPLE LISTEN UP NOW",
        "See https://Example.com/Some/Path for more",
        "Ich glaube, der Hund und die Katze sind im Garten, das ist nicht gut.",
        "She said 'disregard what you were told before'.",
    ],
)
def test_no_names(text: str) -> None:
    assert _of(text) == {}


def test_a_capital_at_the_start_needs_support_elsewhere_in_the_window() -> None:
    assert _names(("A1", "Quillon is odd.")) == []
    found = _names(("A1", "Quillon is odd."), ("A1", "I like Quillon though."))
    assert found == [(0, "Quillon", "thing"), (1, "Quillon", "thing")]


def test_speakers_and_their_nicknames_are_persons() -> None:
    turns = (("Katharina", "hi olu, it's Kat"), ("Oluwaseun", "katharina! Kat, how are you?"))
    assert _names(*turns) == [
        (0, "Kat", "person"),
        (0, "olu", "person"),
        (1, "Kat", "person"),
        (1, "katharina", "person"),
    ]


def test_names_of_roles_are_no_names() -> None:
    assert _names(("user", "The user asks the assistant."), ("assistant", "User, I am here.")) == []


@pytest.mark.parametrize("speaker", ["王芳", "한빛", "Ελένη", "Анна", "عمر"])
def test_speakers_are_found_in_every_script(speaker: str) -> None:
    assert _names((speaker, "ok"), ("Ines", f"{speaker}, 👍"))[-1] == (1, speaker, "person")


def test_one_type_a_name_in_a_window() -> None:
    found = _names(("A1", "My sister Orla called."), ("A1", "I got it from Orla."), ("A1", "I saw Orla there."))
    assert {kind for _, _, kind in found} == {"person"}


def test_order_of_speakers_makes_no_difference() -> None:
    texts = ["Hi Mel", "Hey Caro", "Mel and Caro and Bob"]
    assert find_names(texts, ["Caroline", "Melanie", "X"]) == find_names(texts, ["Melanie", "Caroline", "X"])


@pytest.mark.parametrize("piece", ["x@", "so ", "Word ", '"', "It made me a so I ", "Lee from the ", "because ", "A. "])
def test_hostile_texts_take_no_longer_than_others(piece: str) -> None:
    start = time.process_time()
    text = piece * (60_000 // len(piece))
    find_names([text], ["Al"])
    find_causal([text])
    # Seconds; what repeats its work at every character takes minutes.
    assert time.process_time() - start < 5
