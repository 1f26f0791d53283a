"""LoCoMo and LongMemEval: what becomes memory, session and turn, and repaired evidence."""

import json
from pathlib import Path

import pytest

from magma_gpu.readers import Source, detect_format, read_source
from magma_gpu.types import MemoryNote, Question, Reject, Turn

DATA = Path(__file__).resolve().parents[2] / "../shared/data"


def read(path, format_):
    source = Source(path, path.name)
    assert detect_format(source) == format_
    return list(read_source(source, format_, memory_id=None))


def of(records, kind):
    return [record for record in records if isinstance(record, kind)]


@pytest.fixture
def sample():
    def say(dia_id, **more):
        return {"speaker": "Ana", "dia_id": dia_id, "text": f"text {dia_id}", **more}

    return {
        "qa": [
            {"question": "Who?", "answer": "Ana", "evidence": ["D10:1"], "category": 4},
            {"question": "When?", "answer": 2022, "evidence": ["D2:1; D10:2", "D:2:1"], "category": 2},
            {
                "question": "Why?",
                "adversarial_answer": "no",
                "evidence": ["D2:01 D10:19", "D"],
                "category": 5,
            },
            {"question": "What?", "answer": "x", "category": 1},
        ],
        "conversation": {
            "speaker_a": "Ana",
            "session_10_date_time": "1:56 pm on 8 May, 2023",
            "session_10": [
                say("D10:1"),
                say("D10:2", text="", blip_caption="a dog", query="dog", img_url=["u"]),
            ],
            "session_2_date_time": "9:00 am on 1 May, 2023",
            "session_2": [say("D2:1"), {"speaker": "Ben", "dia_id": "D2:2", "text": None}],
            "session_11_date_time": "10:00 am on 9 May, 2023",
        },
        "sample_id": "conv-1",
        "observation": {},
    }


def test_locomo_sample(tmp_path, sample):
    (tmp_path / "x.json").write_text(json.dumps([sample]))
    records = read(tmp_path / "x.json", "locomo")
    assert of(records, MemoryNote) == [MemoryNote(memory_id="conv-1")]
    assert of(records, Turn)[0] == Turn(
        memory_id="conv-1",
        session_id="session_2",
        turn_id="D2:1",
        speaker="Ana",
        role="other",
        text="text D2:1",
        time=None,
        seq=0,
        session_time="9:00 am on 1 May, 2023",
        session_seq=2,
        source="x.json",
        line=1,
    )
    assert [(t.session_seq, t.seq, t.turn_id, t.caption) for t in of(records, Turn)] == [
        (2, 0, "D2:1", None),
        (10, 0, "D10:1", None),
        (10, 1, "D10:2", "a dog"),
    ]
    assert [(r.line, r.reason, r.memory_id) for r in of(records, Reject)] == [(2, "no text", "conv-1")]


def test_locomo_questions(tmp_path, sample):
    (tmp_path / "x.json").write_text(json.dumps([sample]))
    questions = of(read(tmp_path / "x.json", "locomo"), Question)
    assert questions[0] == Question(
        memory_id="conv-1",
        query_id="conv-1_qa0",
        question="Who?",
        gold="Ana",
        evidence=("D10:1",),
        category="4",
    )
    assert [(q.query_id, q.gold, q.evidence, q.category) for q in questions[1:]] == [
        ("conv-1_qa1", "2022", ("D2:1", "D10:2"), "2"),
        ("conv-1_qa2", None, ("D2:1",), "5"),
        ("conv-1_qa3", "x", (), "1"),
    ]


def test_locomo_cut_in_the_second_sample(tmp_path, sample):
    text = json.dumps([sample, {**sample, "sample_id": "conv-2"}])
    (tmp_path / "x.json").write_text(text[: text.rindex("D2:2")])
    records = read(tmp_path / "x.json", "locomo")
    assert len(of(records, Turn)) == 6
    assert [r.reason for r in of(records, Reject)] == ["no text", "broken JSON"]


def test_locomo_file():
    path = DATA / "locomo/locomo10.json"
    if not path.exists():
        pytest.skip("shared/data/locomo is not beside the checkout")
    records = read(path, "locomo")
    turns, questions = of(records, Turn), of(records, Question)
    assert len({t.memory_id for t in turns}) == 10
    assert len({(t.memory_id, t.session_id) for t in turns}) == 272
    assert (len(turns), len(questions), len(of(records, Reject))) == (5882, 1986, 0)
    assert sum(t.caption is not None for t in turns) == 1226
    assert sum(bool(q.evidence) for q in questions) == 1982
    known = {(t.memory_id, t.turn_id) for t in turns}
    assert all((q.memory_id, name) in known for q in questions for name in q.evidence)
    assert [sum(q.category == c for q in questions) for c in "12345"] == [282, 321, 96, 841, 446]
    assert sum(q.gold is None for q in questions) == 444
    quirks = {q.query_id: q.evidence for q in questions}
    assert quirks["conv-26_qa37"] == ("D8:6", "D9:17")
    assert len(quirks["conv-42_qa58"]) == 6
    assert "D10:19" not in quirks["conv-42_qa58"]
    assert "D11:26" in quirks["conv-43_qa18"]
    assert quirks["conv-49_qa46"] == ("D21:18", "D21:22", "D11:15", "D11:19")
    assert "D30:5" in quirks["conv-50_qa69"]


def haystack(**more):
    return {
        "question_id": "q1",
        "question_type": "multi-session",
        "question": "How many?",
        "answer": 3,
        "question_date": "2023/04/10 (Mon) 23:07",
        **more,
    }


SAID = [{"role": "user", "content": "I have 3.", "has_answer": True}, {"role": "assistant", "content": "ok"}]


def read_lme(tmp_path, *items):
    (tmp_path / "lme.json").write_text(json.dumps(items))
    return read(tmp_path / "lme.json", "longmemeval")


def test_longmemeval_question(tmp_path):
    item = haystack(haystack_session_ids=["s1"], haystack_dates=["2023/04/10 (Mon) 14:47"], haystack_sessions=[SAID])
    note, first, second, question = read_lme(tmp_path, item)
    assert note == MemoryNote(memory_id="q1")
    assert first == Turn(
        memory_id="q1",
        session_id="s1",
        turn_id="s1:1",
        speaker=None,
        role="user",
        text="I have 3.",
        time=None,
        seq=0,
        session_time="2023/04/10 (Mon) 14:47",
        session_seq=0,
        source="lme.json",
        line=1,
    )
    assert (second.turn_id, second.role, second.seq, second.line) == ("s1:2", "assistant", 1, 2)
    assert question == Question(
        memory_id="q1",
        query_id="q1",
        question="How many?",
        time="2023/04/10 (Mon) 23:07",
        gold="3",
        evidence=("s1:1",),
        category="multi-session",
    )


def test_longmemeval_without_sessions_is_still_a_memory(tmp_path):
    item = haystack(haystack_session_ids=[], haystack_dates=[], haystack_sessions=[])
    note, question = read_lme(tmp_path, item)
    assert (note.memory_id, question.evidence) == ("q1", ())


def test_longmemeval_repeated_session_ids(tmp_path):
    other = [{"role": "user", "content": "else"}]
    item = haystack(
        haystack_session_ids=["a", "b", "a", "b", "b"],
        haystack_dates=["d1", "d2", "d3", "d2", "d2"],
        haystack_sessions=[SAID, SAID, SAID, SAID, other],
    )
    turns = of(read_lme(tmp_path, item), Turn)
    assert list(dict.fromkeys((t.session_id, t.session_seq) for t in turns)) == [
        ("a@d1", 0),
        ("b", 1),
        ("a@d3", 2),
        ("b#2", 4),
    ]
    equal = [t for t in turns if t.session_id == "b"]
    assert [(t.turn_id, t.seq, t.text) for t in equal[:2]] == [(t.turn_id, t.seq, t.text) for t in equal[2:]]
    assert len(turns) == 9


def test_longmemeval_strange_shapes_are_rejects(tmp_path):
    item = haystack(question_id="", haystack_sessions=[SAID, "x"])
    missing = haystack(question_id="q2", haystack_sessions=[[{"role": "user"}, 5]], question=None)
    records = read_lme(tmp_path, item, missing, 7)
    assert [r.reason for r in of(records, Reject)] == [
        "unusable id",
        "unusable id",
        "unusable id",
        "no text",
        "not an object",
        "unusable question",
        "not a LongMemEval question",
    ]


def test_longmemeval_file():
    path = DATA / "longmemeval/lme_evidence_turns_500.json"
    if not path.exists():
        pytest.skip("shared/data/longmemeval is not beside the checkout")
    records = read(path, "longmemeval")
    turns, questions = of(records, Turn), of(records, Question)
    assert len({note.memory_id for note in of(records, MemoryNote)}) == 500
    assert (len(turns), len(questions), len(of(records, Reject))) == (896, 500, 0)
    assert len({(t.memory_id, t.session_id) for t in turns}) == 854
    assert len({n.memory_id for n in of(records, MemoryNote)} - {t.memory_id for t in turns}) == 21
    assert sum(t.role == "assistant" for t in turns) == 54
    assert sum(len(q.evidence) for q in questions) == 896
