"""Which names of a memory are one entity, and what an event's link to it weighs."""

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magma_gpu.causal import PlacedEvent
from magma_gpu.entities import EMPTY_NAME, PRONOUN, EventMention, Resolved, resolve, says_something
from magma_gpu.extract.keys import is_short_form, name_key, person_name
from magma_gpu.extract.words import NICKNAMES

CASES = Path(__file__).resolve().parents[1] / ".." / "shared" / "cases" / "cases.jsonl"
TYPES = ("person", "place", "organisation", "thing", "topic")


def _event(at: int, speaker: str = "Zz", text: str = "blah", session: str = "s") -> PlacedEvent:
    return PlacedEvent(event_id=f"e{at}", session_id=session, position=at, speaker=speaker, text=text)


def _mention(at: int, surface: str, kind: str = "person", origin: str = "rule") -> EventMention:
    return EventMention(event_id=f"e{at}", surface=surface, type=kind, origin=origin)


def _resolve(events: list[PlacedEvent], mentions: list[EventMention]) -> tuple[Resolved, Counter[str]]:
    dropped: Counter[str] = Counter()
    return resolve("m", events, mentions, dropped), dropped


def _groups(*surfaces: str, kind: str = "person") -> set[frozenset[str]]:
    """The names that are one, of a memory whose only speaker is Zz."""
    made, _ = _resolve([_event(0)], [_mention(0, s, kind) for s in surfaces])
    by_entity: dict[object, set[str]] = {}
    for row in made.mentions:
        if row["rule"] != "speaker":
            by_entity.setdefault(row["entity_id"], set()).add(str(row["surface"]))
    return {frozenset(g) for g in by_entity.values()}


def _same(*surfaces: str) -> bool:
    return len(_groups(*surfaces)) == 1


@pytest.mark.parametrize(
    "names",
    [
        ("José", "Jose\u0301", "JOSÉ", "  José  "),
        ("한빛상사", "한빛 상사"),
        ("Ελένη", "ΕΛΕΝΗ"),
        ("Straße", "STRASSE"),
        ("ﬁona", "fiona"),
        ("Alhambra", "the Alhambra", "“Alhambra”"),
        ("Dr. Lee", "Dr. Susan Lee", "Susan"),
        ("Doctor Lee", "dr lee"),
        ("John Doe", "John T. Doe", "J. Doe"),
        ("Frida", "Frida Kahlo", "Kahlo"),
        ("Bob", "Robert Miller"),
        ("Liz", "Elizabeth"),
        ("Aunt Rosa", "Rosa"),
        ("Lee", "Lee from the bakery"),
    ],
)
def test_one(names: tuple[str, ...]) -> None:
    assert _same(*names)


@pytest.mark.parametrize(
    "names",
    [
        ("王芳", "王"),
        ("Анна", "Aнна"),
        ("Susan Lee", "Lee from the bakery"),
        ("Lee from work", "Lee from the bakery"),
        ("John T. Doe", "John A. Doe"),
        ("Dr. Lee", "Mrs. Lee"),
        ("Ann Smith", "Ann Miller"),
        ("Eva", "Evan"),
        ("Mel", "Melbourne"),
    ],
)
def test_two(names: tuple[str, str]) -> None:
    assert len(_groups(*names)) == 2


@pytest.mark.parametrize(
    "names",
    [
        ("Lee", "Susan Lee", "Lee from the bakery"),
        ("Ann", "Ann Smith", "Ann Miller"),
        ("Bob", "Robert A", "Robert B"),
    ],
)
def test_a_name_that_could_be_two_people_is_left_alone(names: tuple[str, ...]) -> None:
    assert len(_groups(*names)) == 3


def test_places_are_not_taken_apart() -> None:
    assert len(_groups("York", "New York", kind="place")) == 2


def _roots(made: Resolved) -> dict[tuple[str, str], str]:
    names = {row["entity_id"]: str(row["name"]) for row in made.entities}
    return {(str(r["event_id"]), str(r["surface"])): names[r["entity_id"]] for r in made.mentions}


def test_nicknames_of_speakers() -> None:
    events = [_event(0, "Melanie"), _event(1, "Oluwaseun"), _event(2, "Joanna")]
    mentions = [
        _mention(0, "Olu"),
        _mention(1, "Mel"),
        _mention(1, "Mell"),
        _mention(1, "Jo"),
        _mention(2, "Me"),
    ]
    made, _ = _resolve(events, mentions)
    roots = _roots(made)
    assert roots["e0", "Olu"] == "Oluwaseun"
    assert roots["e1", "Mel"] == roots["e1", "Mell"] == "Melanie"
    assert roots["e1", "Jo"] == "Joanna"
    # First person: the speaker of the event.
    assert roots["e2", "Me"] == "Joanna"


def test_a_short_form_of_two_speakers_is_neither() -> None:
    made, _ = _resolve([_event(0, "Melanie"), _event(1, "Melissa")], [_mention(0, "Mel")])
    assert _roots(made)["e0", "Mel"] == "Mel"


def test_whoever_speaks_in_the_session_comes_first() -> None:
    events = [
        _event(0, "Katharina", session="a"),
        _event(1, "Olu", session="a"),
        _event(2, "Kat", session="b"),
    ]
    made, _ = _resolve(events, [_mention(1, "Kat"), _mention(2, "Katharina")])
    assert _roots(made)["e1", "Kat"] == "Katharina"
    assert _roots(made)["e2", "Kat"] == "Kat"
    assert _roots(made)["e2", "Katharina"] == "Katharina"
    assert len(made.entities) == 3


def test_a_longer_name_is_not_the_speaker() -> None:
    made, _ = _resolve([_event(0, "John")], [_mention(0, "John Lennon"), _mention(0, "John")])
    assert _roots(made)["e0", "John Lennon"] == "John Lennon"
    assert _roots(made)["e0", "John"] == "John"


def test_names_without_letters_are_dropped_or_kept_by_what_is_seen() -> None:
    surfaces = ["", "  ", "\u200b", "you", "🦊"]
    made, dropped = _resolve([_event(0)], [_mention(0, s) for s in surfaces])
    assert dropped == {EMPTY_NAME: 2, PRONOUN: 1}
    assert {row["name"] for row in made.entities} == {"🦊", "Zz"}


def test_speakers_are_mentioned_by_what_they_say_but_not_by_greetings() -> None:
    events = [
        _event(0, "Ines", "Hello!"),
        _event(1, "Tomasz", "Hi :)"),
        _event(2, "Ines", "..."),
        _event(3, "Ines"),
    ]
    made, _ = _resolve(events, [])
    assert [(r["event_id"], r["surface"], r["rule"]) for r in made.mentions] == [("e3", "Ines", "speaker")]
    assert says_something("我很好")
    assert not says_something("Hey, thanks!! 🙂")


def test_rows_and_weights() -> None:
    events = [_event(at, "Ines") for at in range(4)]
    mentions = [
        _mention(0, "Porto", "place"),
        _mention(0, "PORTO", "place"),
        _mention(2, "Porto", "place", "llm"),
    ]
    made, _ = _resolve(events, mentions)
    entities = {str(row["name"]): row for row in made.entities}
    assert entities["Porto"]["aliases"] == ["PORTO"]
    assert entities["Porto"]["type"] == "place"
    assert entities["Porto"]["num_events"] == 2
    assert entities["Ines"]["type"] == "person"
    weights = {(row["src"], row["dst"]): row["weight"] for row in made.edges}
    assert len(weights) == len(made.edges) == 6
    assert weights["e0", entities["Porto"]["entity_id"]] == pytest.approx(math.log(3) / math.log(5))
    assert weights["e3", entities["Ines"]["entity_id"]] == pytest.approx(math.log(2) / math.log(5))
    assert {(r["src"], r["origin"]) for r in made.edges if r["dst"] == entities["Porto"]["entity_id"]} == {
        ("e0", "rule"),
        ("e2", "llm"),
    }
    assert made.edges == sorted(made.edges, key=lambda r: (str(r["src"]), str(r["dst"])))


def test_ids_belong_to_one_memory() -> None:
    one = resolve("a", [_event(0, "Kat")], [], Counter()).entities
    two = resolve("b", [_event(0, "Kat")], [], Counter()).entities
    assert one[0]["name"] == two[0]["name"]
    assert one[0]["entity_id"] != two[0]["entity_id"]


_SURFACES = [
    "Lee",
    "Dr. Lee",
    "Dr. Susan Lee",
    "Susan",
    "Lee from the bakery",
    "Bob",
    "Robert",
    "Robert Hill",
    "Mel",
]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([*_SURFACES, "I", "Straße"]), st.sampled_from(TYPES))),
    st.randoms(use_true_random=False),
)
def test_order_and_repetition_make_no_difference(found, random) -> None:  # type: ignore[no-untyped-def]
    events = [_event(at, ("Melanie", "Bobby", "user")[at % 3], session=str(at % 2)) for at in range(5)]
    mentions = [_mention(at, surface, kind) for at, surface, kind in found]
    first, dropped = _resolve(events, mentions)
    shuffled = [*mentions, *mentions[:3]]
    random.shuffle(shuffled)
    mixed = list(events)
    random.shuffle(mixed)
    assert _resolve(mixed, shuffled) == (first, dropped)
    entity_ids = [row["entity_id"] for row in first.entities]
    assert len(set(entity_ids)) == len(entity_ids)
    assert {row["entity_id"] for row in first.mentions} == set(entity_ids)
    assert all(0 < float(str(row["weight"])) <= 1 for row in first.edges)


_UNMERGED = ("same name", "speaker", "ambiguous")


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from([*_SURFACES, "Straße", "STRASSE"]),
            st.sampled_from(TYPES),
            st.sampled_from(["", "Robert Hill", "Melanie", "Nobody"]),
        )
    ),
    st.randoms(use_true_random=False),
)
def test_every_merge_is_told_by_its_rule_and_can_be_taken_back(found, random) -> None:  # type: ignore[no-untyped-def]
    events = [_event(at, ("Melanie", "Bobby", "user")[at % 3], session=str(at % 2)) for at in range(5)]
    mentions = [
        EventMention(event_id=f"e{at}", surface=surface, type=kind, origin="llm", alias_of=alias)
        for at, surface, kind, alias in found
    ]
    made, _ = _resolve(events, mentions)
    by_entity: dict[object, list[dict[str, object]]] = {}
    for row in made.mentions:
        by_entity.setdefault(row["entity_id"], []).append(row)
    for rows in by_entity.values():
        # Without the rows that a rule brought here, one name is left: no merge happened without a rule that says so.
        left = {person_name(name_key(str(r["surface"]))).base for r in rows if r["rule"] in _UNMERGED}
        assert len(left) <= 1
    # And every mention is there with its own words, so taking a row out gives the name back to itself.
    told = {(r["event_id"], r["surface"]) for r in made.mentions}
    assert {(m.event_id, m.surface) for m in mentions} <= told
    shuffled = [*mentions, *mentions[:3]]
    random.shuffle(shuffled)
    assert _resolve(events, shuffled)[0] == made


@given(st.text(max_size=12))
def test_keys_are_stable_and_never_empty_for_what_is_seen(name: str) -> None:
    key = name_key(name)
    assert name_key(name.upper().casefold()) == name_key(name.casefold())
    assert name_key(f" {name}\t") == key
    if any(c.isalnum() for c in name):
        assert key


def test_person_names_are_taken_apart() -> None:
    name = person_name(name_key("Doctor Susan J. Lee"))
    assert (name.title, name.parts, name.described) == ("dr", ("susan", "j", "lee"), "")
    assert person_name(name_key("Lee from the bakery")).base == "lee from the bakery"
    assert person_name("dr").parts == ("dr",)


def test_the_table_of_nicknames_has_no_cycle() -> None:
    def depth(name: str, seen: tuple[str, ...] = ()) -> int:
        assert name not in seen, seen
        return 1 + max((depth(full, (*seen, name)) for full in NICKNAMES.get(name, ())), default=0)

    assert max(depth(name) for name in NICKNAMES) <= 3


def test_short_forms() -> None:
    for word, name in (
        ("mel", "melanie"),
        ("olu", "oluwaseun"),
        ("kat", "katharina"),
        ("bob", "robert"),
        ("timmy", "tim"),
    ):
        assert is_short_form(word, name)
    for word, name in (
        ("eva", "evan"),
        ("mo", "monika"),
        ("carly", "carl"),
        ("melanie", "mel"),
        ("tim", "tim"),
    ):
        assert not is_short_form(word, name)


def test_names_of_the_unicode_case() -> None:
    if not CASES.exists():
        pytest.skip(f"needs the case file {CASES.name} beside the checkout")
    rows = (json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines())
    names = next(row for row in rows if row["id"] == "C32")["input"]["names"]
    made, dropped = _resolve([_event(0)], [_mention(0, name, "thing") for name in names])
    assert not dropped
    kept = {row["surface"] for row in made.mentions}
    assert kept == {name.strip() for name in names} | {"Zz"}
    by_id = {row["entity_id"]: {row["name"], *row["aliases"]} for row in made.entities}  # type: ignore[misc]
    groups = [group for group in by_id.values() if len(group) > 1]
    assert sorted(len(g) for g in groups) == [2, 2, 2, 2, 3]
    assert {"José", "Jose\u0301", "JOSÉ"} in groups
