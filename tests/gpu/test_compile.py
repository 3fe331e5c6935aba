"""``torch.compile`` and export on a real GPU: the cases of the fake device, by inductor, too."""

from __future__ import annotations

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device, or a torch without CUDA", allow_module_level=True)

import dglite.nn as dnn
from tests.fake_device import test_compile as cases
from tests.versions import compiles_whole, exports

BACKENDS = ["aot_eager", "inductor"]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("place", cases.PLACES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_graph_in_a_closure(backend, place):
    cases.closed_over("cuda", backend, place)


@pytest.mark.parametrize("backend", BACKENDS)
def test_training(backend):
    torch.testing.assert_close(cases.trained("cuda", backend), cases.trained("cuda", None), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", cases.LAYERS)
@compiles_whole
def test_a_layer_is_one_program(name, backend):
    place = cases.PLACES[backend == "inductor"]
    assert cases.compare(cases.layer_named(name), "cuda", backend, place, whole=True).frame_count == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", cases.WHOLE)
@compiles_whole
def test_a_function_is_one_program(name, backend):
    place = cases.PLACES[backend == "aot_eager"]
    assert cases.compare(cases.WHOLE[name], "cuda", backend, place, whole=True).frame_count == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", cases.BROKEN)
def test_methods_that_send_messages(name, backend):
    cases.compare(cases.BROKEN[name], "cuda", backend, "moved there", whole=False)


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "DotGatConv"])
def test_inference(name):
    cases.inferred("cuda", "inductor", name)


@pytest.mark.parametrize("name", cases.OF_ALL_SIZES)
@compiles_whole
def test_graphs_of_all_sizes(name):
    counter = cases.compare(cases.layer_named(name), "cuda", "inductor", "made there", whole=True, dynamic=True)
    assert counter.frame_count <= 2


@pytest.mark.parametrize("portable", [False, True], ids=["operators", "portable"])
@pytest.mark.parametrize("place", cases.PLACES)
@exports
def test_exported_programs(place, portable):
    cases.exported("cuda", "GATv2Conv", place, portable)


@exports
def test_a_program_exported_by_torch():
    cases.exported_by_torch("cuda")


@compiles_whole
def test_nodes_without_in_edges_are_reported():
    cases.lonely("cuda", "inductor")


@pytest.mark.parametrize("place", cases.PLACES)
@compiles_whole
def test_captured_programs_follow_the_graph(place):
    """``mode="reduce-overhead"`` replays CUDA graphs: none may hold the edges of an earlier call."""
    model = dnn.GraphConv(cases.WIDTH, 3).double().cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    graphs = [cases.make("cuda", place, 11, edges) for edges in (30, 30, 40)]
    graphs[1] = graphs[1].reverse()
    with torch.no_grad():
        for g in graphs * 4:
            torch.testing.assert_close(compiled(g, cases.features(g)).clone(), model(g, cases.features(g)))


@pytest.mark.parametrize("backend", BACKENDS)
@compiles_whole
def test_a_later_call_waits_for_nothing(backend):
    model, g = cases.layer_named("GraphConv").cuda(), cases.make("cuda")
    compiled, x = torch.compile(model, fullgraph=True, backend=backend), cases.features(g)
    for _ in range(2):
        cases.results(compiled, model, g, x)
    torch.cuda.set_sync_debug_mode("error")
    try:
        cases.results(compiled, model, g, x)
    finally:
        torch.cuda.set_sync_debug_mode("default")
