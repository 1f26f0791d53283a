"""Peak memory of each reader over a small and a large file of the same form: streaming, shown.

    python pipelines/bench/reader_memory.py --megabytes 64

Each file is one document, or one list of rows, made of many small conversations (or of one long one, where a form knows
no other). Each is read in a process of its own. Memory may grow with the largest conversation, not with the file. The
last line of standard output is JSON.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from magma_gpu.readers import Source, detect_format, read_source

TEXT = "The boat leaks again, and so does the roof above it. " * 4
MESSAGES = 20


def _list(item: Callable[[int], Any]) -> Callable[[int], Iterator[str]]:
    """A JSON list of items."""

    def parts(count: int) -> Iterator[str]:
        for n in range(count):
            yield ("[" if n == 0 else ",") + json.dumps(item(n))
        yield "]"

    return parts


def _inside(before: str, item: Callable[[int], Any], after: str) -> Callable[[int], Iterator[str]]:
    """A list of items inside an object."""

    def parts(count: int) -> Iterator[str]:
        yield before
        yield from _list(item)(count)
        yield after

    return parts


def _lines(line: Callable[[int], str], head: str = "") -> Callable[[int], Iterator[str]]:
    def parts(count: int) -> Iterator[str]:
        yield head
        for n in range(count):
            yield line(n) + "\n"

    return parts


def _said() -> list[dict[str, Any]]:
    return [{"role": "user", "content": TEXT} for _ in range(MESSAGES)]


def _tree(number: int) -> dict[str, Any]:
    nodes = {}
    for i in range(MESSAGES):
        message = {"id": f"n{i}", "author": {"role": "user"}, "content": {"parts": [TEXT]}}
        nodes[f"n{i}"] = {"id": f"n{i}", "parent": f"n{i - 1}" if i else None, "children": [], "message": message}
    return {"id": f"c{number}", "mapping": nodes, "current_node": f"n{MESSAGES - 1}"}


def _haystack(number: int) -> dict[str, Any]:
    sessions = {"haystack_session_ids": ["s"], "haystack_dates": ["2023/05/20 (Sat) 02:21"]}
    return {"question_id": f"q{number}", "question": "?", **sessions, "haystack_sessions": [_said()]}


def _sample(number: int) -> dict[str, Any]:
    said = [{"speaker": "Ana", "dia_id": f"D1:{i}", "text": TEXT} for i in range(MESSAGES)]
    return {"sample_id": f"s{number}", "conversation": {"session_1_date_time": "1 May 2023", "session_1": said}}


def _bank(count: int) -> Iterator[str]:
    for n in range(count):
        days = {"2023-05-01": [{"query": TEXT, "response": TEXT}] * (MESSAGES // 2)}
        yield ("{" if n == 0 else ",") + f'"u{n}": {json.dumps({"history": days})}'
    yield "}"


def _telegram_message(n: int) -> dict[str, Any]:
    return {"id": n, "type": "message", "date": "2023-05-01T10:00:00", "from": "Ana", "text": TEXT}


def _discord_message(n: int) -> dict[str, Any]:
    return {
        "id": str(n),
        "type": "Default",
        "timestamp": "2024-03-01T09:00:00Z",
        "content": TEXT,
        "author": {"name": "A"},
    }


def _clock(n: int) -> str:
    return f"{n // 60 % 24:02}:{n % 60:02}"


# By format: the ending of the file's name, its parts, and how many turns an item has.
FORMS: dict[str, tuple[str, Callable[[int], Iterator[str]], int]] = {
    "jsonl": (".jsonl", _lines(lambda n: json.dumps({"text": TEXT, "session_id": f"s{n // 20}"})), 1),
    "parquet": (".parquet", _lines(lambda n: TEXT), 1),
    "csv": (".csv", _lines(lambda n: f'Ana,"{TEXT}"', "speaker,text\n"), 1),
    "openai": (".json", _list(lambda n: {"id": f"c{n}", "messages": _said()}), MESSAGES),
    "pairs": (".json", _list(lambda n: {"user_input": TEXT, "agent_response": TEXT}), 2),
    "chatgpt": (".json", _list(_tree), MESSAGES),
    "claude": (
        ".json",
        _list(lambda n: {"uuid": f"c{n}", "chat_messages": [{"sender": "human", "text": TEXT}] * MESSAGES}),
        MESSAGES,
    ),
    "sharegpt": (
        ".json",
        _list(lambda n: {"id": f"c{n}", "conversations": [{"from": "human", "value": TEXT}] * MESSAGES}),
        MESSAGES,
    ),
    "locomo": (".json", _list(_sample), MESSAGES),
    "longmemeval": (".json", _list(_haystack), MESSAGES),
    "memorybank": (".json", _bank, MESSAGES),
    "whatsapp": (".txt", _lines(lambda n: f"[30/12/2023, {_clock(n)}:01] Ana: {TEXT}"), 1),
    "telegram": (".json", _inside('{"name": "c", "id": 1, "messages": ', _telegram_message, "}"), 1),
    "slack": (".json", _list(lambda n: {"type": "message", "user": "U1", "text": TEXT, "ts": f"{n}.0"}), 1),
    "discord": (".json", _inside('{"channel": {"id": "7"}, "messages": ', _discord_message, "}"), 1),
    "instagram": (
        ".json",
        _inside('{"messages": ', lambda n: {"sender_name": "A", "timestamp_ms": n + 1, "content": TEXT}, "}"),
        1,
    ),
    "irc": ("-2023-05-01.log", _lines(lambda n: f"[{_clock(n)}] <ana> {TEXT}"), 1),
}


def _write_parquet(path: Path, count: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(
        path, pa.schema([("speaker", pa.string()), ("text", pa.string())]), compression="none"
    ) as file:
        for first in range(0, count, 50_000):
            # Equal texts would be written once.
            texts = [f"{n}{TEXT}" for n in range(first, min(count, first + 50_000))]
            file.write_table(pa.table({"speaker": ["Ana"] * len(texts), "text": texts}))


def _read(path: str, said: Any) -> None:
    source = Source(Path(path), Path(path).name)
    form = detect_format(source)
    start = time.perf_counter()
    records = sum(1 for r in read_source(source, form, memory_id=None) if type(r).__name__ == "Turn")
    seconds = time.perf_counter() - start
    # The resource module's figure would begin at that of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    said.send((form, records, seconds, peak_kb * 1024))


def peak(form: str, num_bytes: int, folder: Path) -> dict[str, Any]:
    """Reads a file of this size in a process of its own."""
    ending, parts, turns = FORMS[form]
    # One item, less the brackets around it.
    size = len("".join(parts(2))) - len("".join(parts(1)))
    count = max(2, num_bytes // size)
    path = folder / f"log{ending}"
    if form == "parquet":
        _write_parquet(path, count)
    else:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(parts(count))
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_read, args=(str(path), send))
    process.start()
    told, records, seconds, memory = receive.recv()
    process.join()
    assert (told, records) == (form, count * turns), (told, records, count * turns)
    return {
        "bytes": path.stat().st_size,
        "turns": records,
        "seconds": round(seconds, 2),
        "peak_mb": round(memory / 1e6),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for form in args.forms:
            small, large = (peak(form, size, Path(name)) for size in (2_000_000, args.megabytes * 1_000_000))
            found[form] = {"small": small, "large": large, "grown_mb": large["peak_mb"] - small["peak_mb"]}
            print(form, json.dumps(found[form]), file=sys.stderr, flush=True)
    machine = {"platform": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}
    document = {"machine": machine, "megabytes": args.megabytes, "readers": found}
    if args.out is not None:
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
