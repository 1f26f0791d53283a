"""Graphs for training: what is loaded equals what the store gives, and a pickle is never opened."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from export_stores import ODD_MEMORY
from torch_geometric.data import HeteroData

from magma_gpu import Memory
from magma_gpu.errors import InputError
from magma_gpu.export import MemoryGraphs, QuerySubgraphs, Seeded, export_store, load_hetero, loader, seeds_of
from magma_gpu.graph import NODE_TYPES, TRIPLES, from_hetero

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"


@pytest.fixture(scope="module")
def exported(odd_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("hetero") / "out"
    export_store(odd_store, "hetero", out)
    return out


def _same(a: HeteroData, b: HeteroData) -> None:
    assert a["memory_id"] == b["memory_id"]
    assert a.node_types == b.node_types
    assert a.edge_types == b.edge_types
    assert torch.equal(a["event"].time, b["event"].time)
    for node_type in NODE_TYPES:
        assert a[node_type].node_id == b[node_type].node_id
        assert torch.equal(a[node_type].x, b[node_type].x)
    for triple in TRIPLES.values():
        assert torch.equal(a[triple].edge_index, b[triple].edge_index)
        assert torch.equal(a[triple].edge_attr, b[triple].edge_attr)


def test_loaded_graphs_equal_those_of_the_store(odd_store: Path, exported: Path) -> None:
    memory = Memory.open(odd_store)
    graphs = MemoryGraphs(exported)
    assert sorted(graphs.memory_ids) == memory.memory_ids()
    for memory_id in memory.memory_ids():
        loaded = graphs.of(memory_id)
        assert loaded.validate(raise_on_error=True)
        _same(loaded, memory.to_hetero(memory_id))
        assert from_hetero(loaded).event_ids == memory.graph(memory_id).event_ids


def test_every_type_is_there_in_any_order_of_a_batch(exported: Path) -> None:
    graphs = MemoryGraphs(exported)
    totals = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        [batch] = loader(torch.utils.data.Subset(graphs, order), batch_size=3)
        assert set(batch.edge_types) == set(TRIPLES.values())
        assert set(batch.node_types) == set(NODE_TYPES)
        totals.append({t: batch[t].edge_index.shape[1] for t in batch.edge_types})
        assert batch["event"].x.shape == (9, 64)
        assert batch["event"].batch.bincount().sum() == 9
    assert totals[0] == totals[1] == totals[2]
    assert totals[0][TRIPLES["temporal"]] == 6


def test_one_graph_opens_by_its_folder(odd_store: Path, exported: Path, tmp_path: Path) -> None:
    export_store(odd_store, "hetero", tmp_path / "one", memory_id=ODD_MEMORY)
    assert load_hetero(tmp_path / "one")["memory_id"] == ODD_MEMORY
    with pytest.raises(InputError, match="holds 3 graphs"):
        load_hetero(exported)


def _chain() -> HeteroData:
    """Events 0-1-2-3-4 in a row; 4 shares entity a with 0."""
    data = HeteroData()
    data["memory_id"] = "m"
    for node_type, ids in (("event", list("01234")), ("episode", []), ("entity", ["a"])):
        data[node_type].x = torch.eye(8)[: len(ids)]
        data[node_type].num_nodes = len(ids)
        data[node_type].node_id = ids
    data["event"].time = torch.arange(5)
    edges = {"temporal": [[0, 1, 2, 3], [1, 2, 3, 4]], "entity": [[0, 4], [0, 0]]}
    for name, triple in TRIPLES.items():
        index = torch.tensor(edges.get(name, [[], []]), dtype=torch.int64)
        data[triple].edge_index = index
        data[triple].edge_attr = torch.arange(index.shape[1], dtype=torch.float32)
    return data


@pytest.mark.parametrize(
    ("num_hops", "max_nodes", "events", "hops", "entities", "temporal", "entity"),
    [
        (0, 99, ["0"], [0], [], [[], []], [[], []]),
        (1, 99, ["0", "1"], [0, 1], ["a"], [[0], [1]], [[0], [0]]),
        (2, 99, ["0", "1", "2", "4"], [0, 1, 2, 2], ["a"], [[0, 1], [1, 2]], [[0, 3], [0, 0]]),
        # Of hop 1 the event stays before the entity.
        (2, 2, ["0", "1"], [0, 1], [], [[0], [1]], [[], []]),
    ],
)
def test_subgraph_by_hand(num_hops, max_nodes, events, hops, entities, temporal, entity) -> None:
    from magma_gpu.export.dataset import cut

    question = Seeded("m", "q", ("0", "unknown"), targets=("1",), query_D=torch.ones(8))
    part = cut(_chain(), question, num_hops, max_nodes)
    assert part["event"].node_id == events
    assert part["event"].hop.tolist() == hops
    assert part["entity"].node_id == entities
    assert part[TRIPLES["temporal"]].edge_index.tolist() == temporal
    assert part[TRIPLES["entity"]].edge_index.tolist() == entity
    assert part["event"].y.tolist() == [float(e == "1") for e in events]
    assert part["query_x"].shape == (1, 8)
    assert set(part.edge_types) == set(TRIPLES.values())
    assert part.validate(raise_on_error=True)


def test_subgraphs_around_what_a_search_found(odd_store: Path, exported: Path) -> None:
    memory = Memory.open(odd_store)
    results = [
        memory.query(["Where did Ana move?"], "plain")[0],
        memory.query(["Who liked Lisbon?"], ODD_MEMORY)[0],
    ]
    parts = QuerySubgraphs(MemoryGraphs(exported), seeds_of(results, num_seeds=1), num_hops=1)
    assert len(parts) == 2
    assert parts[0]["event"].hop.tolist().count(0) == 1
    [batch] = loader(parts, batch_size=2)
    assert batch["event"].num_nodes == sum(p["event"].num_nodes for p in parts)
    assert batch["memory_id"] == ["plain", ODD_MEMORY]


def test_a_pickle_is_refused_and_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Boom:
        def __reduce__(self):
            return print, ("ran",)

    (tmp_path / "graph.pt").write_bytes(pickle.dumps({"x": Boom()}, protocol=2))
    with pytest.raises(InputError, match="pickles above all, are not loaded"):
        load_hetero(tmp_path / "graph.pt")
    assert capsys.readouterr().out == ""


def test_case_c28(tmp_path: Path) -> None:
    if not (CASES / "make_inputs.py").exists():
        pytest.skip("the shared cases are not beside this checkout")
    command = [sys.executable, str(CASES / "make_inputs.py"), "pickle_pt", str(tmp_path)]
    subprocess.run(command, check=True)
    code = (
        "from magma_gpu.export import load_hetero\n"
        "from magma_gpu.errors import InputError\n"
        "try:\n    load_hetero('graph_pickle.pt')\n"
        "except InputError as error:\n    print('refused:', error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused: 'graph_pickle.pt' is no graph")
    assert "UNSAFE" not in done.stdout + done.stderr


def _has_sampler() -> bool:
    from torch_geometric import typing

    return bool(typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE)


@pytest.mark.skipif(not _has_sampler(), reason="neither pyg-lib nor torch-sparse is installed: no compiled sampler")
def test_neighbours_are_sampled_inside_a_memory(exported: Path) -> None:
    from torch_geometric.loader import HGTLoader, NeighborLoader

    data = MemoryGraphs(exported).of("plain")
    # Names of nodes are no tensors, and a sampler takes none.
    for node_type in NODE_TYPES:
        data[node_type].number = torch.arange(data[node_type].num_nodes)
        del data[node_type].node_id
    whole = NeighborLoader(data, num_neighbors=[-1, -1], input_nodes="event", batch_size=2)
    sampled = HGTLoader(data, num_samples=[4, 4], input_nodes="event", batch_size=2)
    for found in (whole, sampled):
        seeds = []
        for batch in found:
            size = batch["event"].batch_size
            seeds += batch["event"].number[:size].tolist()
            for node_type in NODE_TYPES:
                assert torch.equal(batch[node_type].x, data[node_type].x[batch[node_type].number])
            for source, relation, target in TRIPLES.values():
                edges = batch[source, relation, target].edge_index
                ends = torch.stack([batch[source].number[edges[0]], batch[target].number[edges[1]]])
                known = set(map(tuple, data[source, relation, target].edge_index.T.tolist()))
                assert set(map(tuple, ends.T.tolist())) <= known
        assert seeds == list(range(data["event"].num_nodes))


def test_damaged_files_are_one_sentence(exported: Path, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    good = next(exported.rglob("*.safetensors"))
    cut_file = tmp_path / "cut.safetensors"
    cut_file.write_bytes(good.read_bytes()[:-8])
    with pytest.raises(InputError, match="is no graph of a hetero export"):
        load_hetero(cut_file)
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="its header is another's"):
        load_hetero(tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="There is no graph"):
        load_hetero(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match="no hetero export"):
        MemoryGraphs(tmp_path)


def test_an_edge_that_leaves_the_graph_is_refused(tmp_path: Path) -> None:
    from magma_gpu.export.hetero import save_hetero

    data = _chain()
    data[TRIPLES["temporal"]].edge_index[1, 0] = 99
    save_hetero(data, tmp_path / "bad.safetensors")
    with pytest.raises(InputError, match="a temporal edge leaves the graph"):
        load_hetero(tmp_path / "bad.safetensors")


def test_the_package_never_unpickles() -> None:
    root = Path(__file__).resolve().parents[2]
    found = [
        file.name
        for folder in ("magma_gpu", "kernels/magma_kernels", "pipelines/magma_pipelines")
        for file in (root / folder).rglob("*.py")
        if any(word in file.read_text() for word in ("weights_only=False", "pickle.load", "allow_pickle=True"))
    ]
    assert found == []
