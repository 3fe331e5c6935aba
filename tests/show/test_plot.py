"""Pictures of graphs: what is drawn where, in which colours, and what errors say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import matplotlib
import numpy as np
import pytest
import torch

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.collections import EllipseCollection, LineCollection, PathCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyArrowPatch

import dglite
from dglite.errors import DGLError
from dglite.show.layout import EXACT, distance_layout


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    pyplot.close("all")


def ring(n: int = 4) -> dglite.DGLGraph:
    nodes = torch.arange(n)
    return dglite.graph((nodes, (nodes + 1) % n))


def complete(n: int) -> dglite.DGLGraph:
    return dglite.graph(torch.ones(n, n).nonzero(as_tuple=True))


def typed() -> dglite.DGLGraph:
    return dglite.heterograph(
        {("user", "follows", "user"): ([0, 1], [1, 2]), ("user", "rates", "film"): ([0, 1, 2], [0, 1, 1])}
    )


def nodes_of(ax) -> PathCollection:
    return next(x for x in ax.collections if isinstance(x, PathCollection) and len(x.get_offsets()))


def lines_of(ax) -> list[LineCollection]:
    return [x for x in ax.collections if isinstance(x, LineCollection)]


def arrows_of(ax) -> list[FancyArrowPatch]:
    return [x for x in ax.patches if isinstance(x, FancyArrowPatch)]


def names_in_legend(ax) -> list[str]:
    return [] if ax.get_legend() is None else [text.get_text() for text in ax.get_legend().get_texts()]


def drawn(ax) -> None:
    """Draw for good: errors in what was added come only then."""
    ax.figure.canvas.draw()


def test_edges_one_way_are_arrows_and_edges_both_ways_are_lines() -> None:
    one_way, both_ways = dglite.plot(ring()), dglite.plot(dglite.to_bidirected(ring()))
    assert len(arrows_of(one_way)) == 4 and sum(len(x.get_segments()) for x in lines_of(one_way)) == 0
    assert len(arrows_of(both_ways)) == 0 and sum(len(x.get_segments()) for x in lines_of(both_ways)) == 4
    drawn(one_way), drawn(both_ways)


def test_arrows_point_from_source_to_destination() -> None:
    positions = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    ax = dglite.plot(dglite.graph(([2, 1], [0, 2])), layout=positions)
    ends = {tuple(map(tuple, arrow._posA_posB)) for arrow in arrows_of(ax)}
    assert ends == {((0.0, 1.0), (0.0, 0.0)), ((1.0, 0.0), (0.0, 1.0))}


def test_self_loops_and_parallel_edges() -> None:
    ax = dglite.plot(dglite.graph(([0, 0, 0, 1], [0, 1, 1, 1])))
    loops = [x for x in ax.collections if isinstance(x, EllipseCollection)]
    assert sum(len(x.get_offsets()) for x in loops) == 2 and len(arrows_of(ax)) == 1
    drawn(ax)


def test_classes_have_colours_and_a_legend() -> None:
    g = ring()
    g.ndata["label"] = torch.tensor([2, 0, 0, 2])
    ax = dglite.plot(g, color="label")
    colours = nodes_of(ax).get_facecolors()
    assert (colours[0] == colours[3]).all() and (colours[1] == colours[2]).all() and (colours[0] != colours[1]).any()
    assert names_in_legend(ax) == ["0", "2"] and ax.get_legend().get_title().get_text() == "label"
    assert names_in_legend(dglite.plot(g, color="label", legend=["a", "b", "c"])) == ["a", "c"]
    assert names_in_legend(dglite.plot(g, color="label", legend={2: "two"})) == ["0", "two"]
    assert names_in_legend(dglite.plot(g, color="label", legend=False)) == []
    assert names_in_legend(dglite.plot(g, color=g.ndata["label"] > 0)) == ["False", "True"]
    assert names_in_legend(dglite.plot(g, color=["x1", "x2", "x1", "x1"])) == ["x1", "x2"]


def test_many_classes_have_different_colours_and_a_legend_that_ends() -> None:
    ax = dglite.plot(ring(30), color=torch.arange(30))
    assert len(np.unique(nodes_of(ax).get_facecolors(), axis=0)) == 30
    assert names_in_legend(ax)[-1] == "and 18 more"


def test_floats_have_a_scale() -> None:
    values = torch.tensor([[0.0], [1.0], [0.5], [float("nan")]], requires_grad=True)
    ax = dglite.plot(ring(), color=values)
    colours = nodes_of(ax).get_facecolors()
    scale = matplotlib.colormaps["viridis"]
    assert np.allclose(colours[:3], scale([0.0, 1.0, 0.5])) and len(ax.figure.axes) == 2
    drawn(ax)


def test_colours_by_name() -> None:
    assert np.allclose(nodes_of(dglite.plot(ring(), color="red")).get_facecolors(), to_rgba("red"))
    colours = nodes_of(dglite.plot(ring(), color=["red", "C1", "#00ff00", "k"])).get_facecolors()
    assert np.allclose(colours, [to_rgba(x) for x in ("red", "C1", "#00ff00", "k")])


def test_types_have_colours_and_edge_types_styles() -> None:
    ax = dglite.plot(typed())
    colours = nodes_of(ax).get_facecolors()
    assert names_in_legend(ax) == ["film", "user", "follows", "rates"]
    assert len(np.unique(colours, axis=0)) == 2 and (colours[0] == colours[1]).all()
    assert {arrow.get_linestyle() for arrow in arrows_of(ax)} == {"solid", "dashed"}
    some = dglite.plot(typed(), color={"user": torch.tensor([0, 1, 0])})
    assert names_in_legend(some)[:3] == ["0", "1", "no value"]


def test_a_feature_of_one_type() -> None:
    g = typed()
    g.nodes["film"].data["year"] = torch.tensor([1999.0, 2020.0])
    ax = dglite.plot(g, color="year", labels="year")
    assert [text.get_text() for text in ax.texts] == ["2e+03", "2.02e+03"]


def test_labels() -> None:
    texts = [text.get_text() for text in dglite.plot(ring(), labels=True).texts]
    assert texts == ["0", "1", "2", "3"]
    assert [text.get_text() for text in dglite.plot(ring(), labels={2: "c"}).texts] == ["c"]
    assert [text.get_text() for text in dglite.plot(ring(), labels=list("abcd")).texts] == list("abcd")
    of_types = dglite.plot(typed(), labels={"film": ["x", "y"]})
    assert [text.get_text() for text in of_types.texts] == ["x", "y"]
    dollars = dglite.plot(ring(), labels=["$", "$$", "_", "^"])
    drawn(dollars)
    drawn(dglite.plot(ring(), color=["$", "$$", "_", "^"]))


def test_labels_are_black_on_light_nodes_and_white_on_dark_ones() -> None:
    axes = dglite.plot(ring(), color=[0.0, 1.0, 0.0, 1.0], labels=True, cmap="viridis")  # from violet to yellow
    assert [text.get_color() for text in axes.texts] == ["white", "black", "white", "black"]


def test_weights_make_edges_wide() -> None:
    g = ring()
    g.edata["w"] = torch.tensor([0.0, 1.0, 0.5, 1.0])
    widths = [arrow.get_linewidth() for arrow in arrows_of(dglite.plot(g, edge_weights="w"))]
    by_edge = dict(zip(range(4), widths, strict=True))
    assert len(set(widths)) == 3 and max(widths) > 3 * min(widths) and by_edge
    other = [arrow.get_linewidth() for arrow in arrows_of(dglite.plot(g, edge_weights=g.edata["w"]))]
    assert other == widths
    drawn(dglite.plot(typed(), edge_weights={"follows": torch.tensor([1.0, 2.0])}))
    drawn(dglite.plot(g, edge_weights=-g.edata["w"]))


def test_highlighted_nodes_have_rings() -> None:
    red = np.array(to_rgba("#e5383b"))
    for nodes in ([1, 3], torch.tensor([False, True, False, True])):
        edges = nodes_of(dglite.plot(ring(), highlight=nodes)).get_edgecolors()
        assert (edges == red).all(1).tolist() == [False, True, False, True]
    edges = nodes_of(dglite.plot(typed(), highlight={"user": [2]})).get_edgecolors()
    assert (edges == red).all(1).tolist() == [False, False, False, False, True]


def test_sizes() -> None:
    assert nodes_of(dglite.plot(ring(), node_size=50)).get_sizes().tolist() == [50] * 4
    assert nodes_of(dglite.plot(ring(), node_size=torch.tensor([1, 2, 3, 4]))).get_sizes().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("layout", ["auto", "spring", "circular", "kamada_kawai", "shell", "spectral", "random"])
def test_layouts(layout: str) -> None:
    ax = dglite.plot(ring(6), layout=layout, seed=3)
    places = nodes_of(ax).get_offsets()
    assert np.isfinite(places).all() and len(np.unique(np.round(places, 6), axis=0)) == 6
    again = nodes_of(dglite.plot(ring(6), layout=layout, seed=3)).get_offsets()
    assert np.allclose(places, again)


def test_positions_of_the_user() -> None:
    places = torch.rand(4, 2)
    assert np.allclose(nodes_of(dglite.plot(ring(), layout=places)).get_offsets(), places)
    by_node = dict(enumerate(places.tolist()))
    assert np.allclose(nodes_of(dglite.plot(ring(), layout=by_node)).get_offsets(), places)
    called = dglite.plot(ring(), layout=lambda graph: {node: (node, len(graph)) for node in graph})
    assert nodes_of(called).get_offsets().tolist() == [[i, 4] for i in range(4)]


def test_a_line_has_room_across_for_its_arrows() -> None:
    for layout in ([[0, 0], [9, 0]], [[0, 0], [0, 9]]):
        axes = dglite.plot(dglite.graph(([0], [1])), layout=np.array(layout, dtype=float))
        box = axes.get_window_extent()
        assert min(box.width, box.height) > 0.3 * max(box.width, box.height)


def test_a_block_is_drawn_in_two_columns() -> None:
    ax = dglite.plot(dglite.create_block(([0, 1, 2], [0, 0, 1])))
    x = nodes_of(ax).get_offsets()[:, 0]
    assert names_in_legend(ax) == ["source", "destination"]
    assert len(set(x[:3].tolist())) == 1 and len(set(x[3:].tolist())) == 1 and x[0] < x[3]


def test_graphs_of_a_batch_do_not_overlap() -> None:
    sizes = [5, 3, 8, 1, 4]
    places = nodes_of(dglite.plot(dglite.batch([ring(n) for n in sizes]))).get_offsets()
    boxes = [(part.min(0), part.max(0)) for part in np.split(places, np.cumsum(sizes)[:-1])]
    for i, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:i]:
            assert (low > other_high).any() or (high < other_low).any()


@pytest.mark.parametrize("size", [20, EXACT + 200])
def test_the_default_layout_keeps_distances(size: int) -> None:
    """On a path the distance in the plane should grow with that in the graph."""
    path = np.arange(size)
    places = distance_layout(size, path[:-1], path[1:], None, 0)
    apart = np.linalg.norm(places - places[0], axis=1)
    assert np.corrcoef(apart, path)[0, 1] > 0.99
    assert np.median(np.linalg.norm(np.diff(places, axis=0), axis=1)) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_graphs_without_edges_or_nodes(idtype: torch.dtype) -> None:
    for n in (0, 1, 7):
        g = dglite.graph(([], []), num_nodes=n, idtype=idtype)
        ax = dglite.plot(g, color=torch.arange(n), labels=True)
        drawn(ax)
        assert len(ax.texts) == n and not arrows_of(ax)
        drawn(dglite.plot(g))
    drawn(dglite.plot(dglite.graph(([0, 1], [1, 0]), idtype=idtype)))


def test_many_edges_get_heads_in_the_middle() -> None:
    ax = dglite.plot(dglite.rand_graph(300, 900))
    assert not arrows_of(ax) and any(type(x).__name__ == "Quiver" for x in ax.collections)
    drawn(ax)


def test_it_draws_on_the_axes_of_the_user() -> None:
    ax = pyplot.subplots()[1]
    before = pyplot.get_fignums()
    assert dglite.plot(ring(), ax=ax) is ax and pyplot.get_fignums() == before


MISTAKES = {
    "no such feature": (lambda g: dglite.plot(g, color="lable"), "color='lable'", "['label']", "nor a colour"),
    "too few values": (lambda g: dglite.plot(g, color=torch.zeros(3)), r"shape (3,)", "(4,)", "4 nodes"),
    "a matrix": (lambda g: dglite.plot(g, color=torch.zeros(4, 2)), "(4, 2)", "(4,)"),
    "no such edge feature": (lambda g: dglite.plot(g, edge_weights="v"), "edge_weights='v'", "['w']"),
    "too few weights": (lambda g: dglite.plot(g, edge_weights=torch.ones(2)), "(2,)", "(4,)"),
    "no layout": (lambda g: dglite.plot(g, layout="sprng"), "'sprng'", "spring"),
    "not planar": (lambda g: dglite.plot(complete(5), layout="planar"), "planar"),
    "no two sides": (lambda g: dglite.plot(g, layout="bipartite"), "bipartite"),
    "too few positions": (lambda g: dglite.plot(g, layout=torch.zeros(3, 2)), "3 positions", "(4, 2)"),
    "a position is missing": (lambda g: dglite.plot(g, layout={0: (0, 0)}), "no position for node 1"),
    "no dictionary": (lambda g: dglite.plot(typed(), color=torch.zeros(5)), "dictionary by node type", "user"),
    "an unknown type": (lambda g: dglite.plot(typed(), color={"movie": [1]}), "'movie'", "user"),
    "a label of no node": (lambda g: dglite.plot(g, labels={9: "x"}), "node 9", "4 nodes"),
    "too few names": (lambda g: dglite.plot(g, color="label", legend=["a"]), "class 1"),
    "too large": (lambda g: dglite.plot(dglite.rand_graph(6000, 6000)), "6,000 nodes", "khop_in_subgraph", "max_nodes"),
    "too many edges": (lambda g: dglite.plot(dglite.rand_graph(1000, 200_000)), "200,000 edges", "node_subgraph"),
    "an edge index": (lambda g: dglite.plot(torch.zeros(2, 3)), "takes a graph", "edge_index"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_errors_say_what_to_do(name: str) -> None:
    g = ring()
    g.ndata["label"], g.edata["w"] = torch.tensor([0, 1, 0, 1]), torch.ones(4)
    call, *words = MISTAKES[name]
    before = pyplot.get_fignums()
    with pytest.raises(DGLError) as error:
        call(g)
    assert not [word for word in words if word not in str(error.value)], str(error.value)
    assert pyplot.get_fignums() == before, "a failed call leaves no figure"


def test_importing_it_imports_no_drawing_library() -> None:
    code = "import sys, dglite; dglite.plot; assert not {'matplotlib', 'networkx', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_arrays_of_numpy_are_drawn_too() -> None:
    code = (
        "import matplotlib; matplotlib.use('Agg'); import dglite, numpy as np\n"
        "g = dglite.graph(([0, 1], [1, 2])); g.ndata['x'] = np.ones((3, 1), dtype=np.float32)\n"
        "dglite.plot(g, color='x', edge_weights=np.ones(2)).figure.canvas.draw()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "DGLITE_BACKEND": "numpy"})
