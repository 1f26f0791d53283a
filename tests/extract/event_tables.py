"""Event tables for the tests of extraction and resolution."""

from collections.abc import Sequence

import pyarrow as pa

from magma_gpu.schema import TABLES


def events_table(
    turns: Sequence[tuple[str, str]],
    *,
    memory_id: str = "m",
    sessions: Sequence[str] | None = None,
    positions: Sequence[int] | None = None,
    first_id: int = 0,
) -> pa.Table:
    """Returns table `events` of (speaker, text) turns; event ids are e0, e1, ..."""
    rows = []
    for at, (speaker, text) in enumerate(turns):
        row = dict.fromkeys(TABLES["events"].names)
        row.update(
            memory_id=memory_id,
            event_id=f"e{first_id + at}",
            session_id=sessions[at] if sessions else "s",
            turn_id=str(at),
            position=positions[at] if positions else at,
            part=0,
            speaker=speaker,
            role="user",
            text=text,
            time_source="missing",
            zone_source="missing",
            source="test",
            seq=at,
        )
        rows.append(row)
    table = pa.Table.from_pylist(rows, schema=TABLES["events"])
    return table.sort_by([("memory_id", "ascending"), ("position", "ascending")])
