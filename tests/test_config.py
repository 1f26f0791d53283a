import dataclasses
from pathlib import Path
from typing import Any

import pytest

from magma_gpu.config import BUILD_SECTIONS, ROW_FIELDS, Config, config_from, load_config
from magma_gpu.errors import ConfigError

CONFIGS = sorted((Path(__file__).resolve().parents[1] / "configs").glob("*.toml"))


def message_of(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        config_from(values)
    message = str(caught.value)
    assert "\n" not in message
    assert message[-1] in ".?"
    return message


def test_defaults() -> None:
    config = load_config()
    assert config == Config()
    assert (config.link.num_neighbors, config.link.threshold, config.search.policy) == (5, 0.5, "learned")
    assert set(BUILD_SECTIONS) | {"read", "search", "run"} == {f.name for f in dataclasses.fields(Config)}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.name)
def test_files_of_configs_load(path: Path) -> None:
    config = load_config(path)
    assert config_from(config.as_dict()) == config


def test_cpu_file_states_the_defaults() -> None:
    made = load_config(next(p for p in CONFIGS if p.name == "cpu.toml"))
    assert dataclasses.replace(made, run=Config().run) == Config()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"serach": {}}, "Unknown config section 'serach'; did you mean 'search'?"),
        ({"zzz": {}}, "Unknown config section 'zzz'; known are embed, extract, ingest"),
        ({"search": {"polcy": "paper"}}, "Unknown config key 'search.polcy'; did you mean 'policy'?"),
        ({"link": {"xyzzy": 1}}, "Unknown config key 'link.xyzzy'; known are approximate_from"),
        ({"ingest": 3}, "Config section [ingest] must be a table of keys (got 3)."),
        ({"ingest": {"num_shards": "4"}}, "ingest.num_shards must be of type int (got '4')."),
        ({"ingest": {"num_shards": 4.0}}, "ingest.num_shards must be of type int (got '4.0')."),
        ({"ingest": {"num_shards": True}}, "ingest.num_shards must be of type int (got 'True')."),
        ({"embed": {"encoder": 5}}, "embed.encoder must be of type str (got '5')."),
        ({"link": {"threshold": "high"}}, "link.threshold must be of type float (got 'high')."),
        ({"link": {"threshold": [0.5]}}, "link.threshold must be of type float"),
        ({"ingest": {"num_shards": 3}}, "ingest.num_shards must be a power of two from 1 to 65536 (got 3)."),
        ({"ingest": {"num_shards": 0}}, "a power of two"),
        ({"ingest": {"num_shards": 1 << 17}}, "a power of two"),
        ({"ingest": {"date_order": "year"}}, "ingest.date_order must be one of , day, month (got 'year')."),
        ({"link": {"threshold": float("nan")}}, "link.threshold must be from -1 to 1 (got nan)."),
        ({"link": {"threshold": 1.5}}, "link.threshold must be from -1 to 1 (got 1.5)."),
        ({"link": {"num_neighbors": 0}}, "link.num_neighbors must be from 1 to 1024 (got 0)."),
        ({"link": {"index": "fast"}}, "link.index must be one of exact, approximate, ivf (got 'fast')."),
        ({"extract": {"overlap": 12}}, "extract.overlap must be from 0 to 11 (got 12)."),
        ({"search": {"policy": "best"}}, "search.policy must be one of "),
        ({"search": {"k": 0}}, "search.k must be from 1 to 100000 (got 0)."),
        ({"search": {"decay": float("inf")}}, "search.decay must be from 0 to 1 (got inf)."),
        ({"search": {"weight_dense": -1.0}}, "search.weight_dense must be from 0 to 1e+06 (got -1)."),
        ({"search": {"weight_time": float("nan")}}, "search.weight_time must be from 0 to 1e+06 (got nan)."),
        ({"search": {"lambda_structure": 1000.0}}, "search.lambda_structure must be from 0 to 10 (got 1000)."),
        ({"run": {"device": "gpu"}}, "run.device must be auto, cpu, cuda or cuda:N (got 'gpu')."),
        ({"run": {"runner": "slurm"}}, "run.runner must be one of local, ray (got 'slurm')."),
    ],
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_what_does_not_fit_is_one_sentence(values: dict[str, Any], words: str) -> None:
    assert words in message_of(values)


def test_all_rankings_off_is_an_error() -> None:
    off = {f"weight_{name}": 0.0 for name in ("dense", "dense_window", "lexical", "lexical_window", "time")}
    assert "a weight above 0" in message_of({"search": off})


def test_integers_do_for_floats_and_nothing_else_is_converted() -> None:
    made = config_from({"link": {"threshold": 1}}).link.threshold
    assert made == 1.0
    assert type(made) is float


def test_settings_win_over_the_file_and_later_ones_over_earlier(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('[search]\nk = 7\npolicy = "paper"\n[ingest]\nnum_shards = 2\n')
    config = load_config(path, ["search.k=8", " search.k = 9 ", "link.threshold=0.25"])
    assert (config.search.k, config.search.policy, config.ingest.num_shards) == (9, "paper", 2)
    assert config.link.threshold == 0.25


def test_a_setting_may_hold_an_equals_sign_or_be_empty() -> None:
    assert load_config(None, ["embed.revision=a=b"]).embed.revision == "a=b"
    assert load_config(None, ["ingest.date_order="]).ingest.date_order == ""


@pytest.mark.parametrize("setting", ["search.k", "search=3", ".=3", "search.=3", "k=3", ""])
def test_a_setting_that_is_none(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"--set wants section.key=value, as in search.k=10|Unknown config section"):
        load_config(None, [setting])


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("search.k=ten", "search.k must be of type int (got 'ten')."),
        ("search.k=1.5", "search.k must be of type int (got '1.5')."),
        ("search.kk=1", "did you mean 'k'?"),
        ("searhc.k=1", "did you mean 'search'?"),
        ("link.threshold=nan", "link.threshold must be from -1 to 1"),
    ],
)
def test_a_setting_that_does_not_fit(setting: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, [setting])
    assert words in str(caught.value)


def test_a_setting_over_a_section_that_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("search = 3\n")
    with pytest.raises(ConfigError, match=r"section \[search\] must be a table"):
        load_config(path, ["search.k=3"])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist; give the path of a TOML file"):
        load_config(tmp_path / "none.toml")
    for name, data in (("bad.toml", b"[search\n"), ("binary.toml", b"\xff\xfe\x00"), ("twice.toml", b"[run]\n[run]\n")):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ConfigError, match="cannot be read as TOML") as caught:
            load_config(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read as TOML"):
        load_config(tmp_path)


def test_columns_of_other_names() -> None:
    fields = load_config(settings=["read.fields=text=Body, speaker=author.name,time=Sent at"]).read
    assert fields.columns == {"text": "Body", "speaker": "author.name", "time": "Sent at"}
    assert load_config().read.columns == {}
    for wrong in ("Body", "text=", "test=Body", "text=Body,"):
        with pytest.raises(ConfigError, match=r"read\.fields wants FIELD=COLUMN pairs, .*fields of memory_id"):
            load_config(settings=[f"read.fields={wrong}"])


def test_rows_have_the_fields_that_readers_know() -> None:
    from magma_gpu.readers.turns import ALIASES

    assert set(ALIASES) == set(ROW_FIELDS)
