"""Coverage-guided fuzzing of the readers and of the parser of stamps, with atheris; by hand, for as long as you like.

    pip install atheris
    python tests/fuzz/atheris_readers.py --found FOLDER -- -max_total_time=600

It is no test that pytest collects. The first byte of an input chooses what parses the rest. An input that raises
anything but an InputError, makes a record that cannot be stored, or takes more than two seconds of processor time is
written to FOLDER, one a place in the code, and the run goes on. What was found belongs into `found/`, which is tested.
Options behind `--` are libFuzzer's. `report.json` in FOLDER says how many inputs there were.
"""

import argparse
import hashlib
import json
import platform
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
SLOW_S = 2.0


def check(data: bytes, path: Path) -> str:
    """Runs one input; returns what parsed it.

    Args:
        data: a byte that chooses, and what is parsed.
        path: a file to write to.

    Raises:
        AssertionError: a record that cannot be stored, or a message that is no single line.
        Exception: any other that the code under test raises.
    """
    from magma_gpu.errors import InputError
    from magma_gpu.readers import FORMATS, Source, detect_format, read_source
    from magma_gpu.stamps import parse_stamps
    from magma_gpu.types import Turn

    targets = [*FORMATS, "auto", "stamps"]
    target, content = targets[data[0] % len(targets)] if data else "auto", data[1:]
    if target == "stamps":
        stamps = [line[:200] for line in content.decode("utf-8", "replace").split("\n")[:20]]
        for order in ("", "day", "month"):
            assert len(parse_stamps(stamps, assumed_zone="Europe/Berlin", date_order=order)) == len(stamps)
        return target
    path.write_bytes(content)
    source = Source(path, f"{path.name}-2024-02-29.json")
    try:
        form = detect_format(source) if target == "auto" else target
        for record in read_source(source, form, memory_id=None, date_order="day"):
            for name in type(record).__slots__:
                value = getattr(record, name)
                for text in value if isinstance(value, tuple) else (value,):
                    if isinstance(text, str):
                        text.encode("utf-8")
            if isinstance(record, Turn):
                assert record.text or record.caption
                assert record.memory_id
                assert record.session_id
    except InputError as refused:
        message = str(refused)
    else:
        message = ""
    # A terminal obeys nothing of it.
    assert not message or message.isprintable()
    return target


def _seeds(folder: Path) -> None:
    """Valid and broken logs of every form, as inputs to begin with."""
    sys.path.insert(0, str(HERE.parents[1] / "pipelines" / "bench"))
    from broken_logs import FORMS, broken_log
    from magma_gpu.readers import FORMATS

    forms = list(FORMATS)
    for form in FORMS:
        for seed in range(12):
            data = broken_log(random.Random(seed), form).data
            for first in (forms.index(form), len(forms)):
                (folder / f"{form}-{seed}-{first}").write_bytes(bytes([first]) + data[:4000])
    stamps = "2024-01-02T10:00:00Z\n1:56 pm on 8 May, 2023\n2023/05/20 (Sat) 02:21\n1710072000\n2023年5月20日\n2/3/23"
    (folder / "stamps").write_bytes(bytes([len(forms) + 1]) + stamps.encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--found", type=Path, required=True, help="where inputs that break something go")
    args, more = parser.parse_known_args()
    import atheris

    with atheris.instrument_imports(include=["magma_gpu.readers", "magma_gpu.stamps"]):
        import magma_gpu.readers
        import magma_gpu.stamps  # noqa: F401

    args.found.mkdir(parents=True, exist_ok=True)
    places: dict[str, str] = {}
    num_inputs = 0
    start = time.perf_counter()

    def report() -> None:
        seconds = round(time.perf_counter() - start)
        document = {"inputs": num_inputs, "seconds": seconds, "python": platform.python_version(), "found": places}
        (args.found / "report.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    def one(data: bytes) -> None:
        nonlocal num_inputs
        num_inputs += 1
        if num_inputs % 1000 == 0:
            # libFuzzer ends the process itself, and asks nobody before.
            report()
        began = time.process_time()
        try:
            check(data, scratch / "log")
            assert time.process_time() - began < SLOW_S, "slow"
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} {Path(frame.filename).name}:{frame.lineno}"
            if place not in places:
                name = hashlib.sha256(data).hexdigest()[:12]
                places[place] = name
                (args.found / name).write_bytes(data)
                print(f"FOUND {place}: {name}: {error}"[:300], file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        scratch, corpus = Path(folder), Path(folder) / "corpus"
        corpus.mkdir()
        _seeds(corpus)
        options = [m for m in more if m != "--"]

        atheris.Setup([sys.argv[0], "-max_len=4096", "-timeout=60", *options, str(corpus)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
