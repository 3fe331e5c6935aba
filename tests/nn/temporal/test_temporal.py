"""Layers of temporal networks beside their formulas, written out event by event."""

from __future__ import annotations

import pytest

import dglite
from dglite import DGLError
from dglite.nn import DyGFormer, GraphMixer, TGATConv, TGNMemory, TimeEncoding
from dglite.nn.temporal import EventSequence

torch = pytest.importorskip("torch")


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def test_time_encoding_has_the_papers_frequencies():
    learned, fixed = TimeEncoding(4).double(), TimeEncoding(4, learned=False).double()
    torch.testing.assert_close(learned.frequency.detach(), torch.tensor([1, 1e-3, 1e-6, 1e-9]).double())
    torch.testing.assert_close(fixed.frequency, 2.0 ** (-torch.arange(4).double() / 2))
    times = torch.tensor([0, 3, 1_000_000])
    close(learned(times), torch.cos(times[:, None] * learned.frequency))
    close(fixed(times), torch.cos(times[:, None] * fixed.frequency))
    assert not list(fixed.parameters())
    assert learned(times[None]).shape == (1, 3, 4)


def test_tgatconv_takes_a_pair_and_no_edges():
    graph = dglite.heterograph({("a", "to", "b"): ([], [])}, {"a": 3, "b": 2})
    layer = TGATConv((4, 3), 0, 2, 6)
    result = layer(graph, (torch.randn(3, 4), torch.ones(2, 3)), torch.zeros(0))
    assert result.shape == (2, 6)
    assert result.isfinite().all()
    with pytest.raises(DGLError, match=r"TGATConv: age of shape \(2,\) was given for 0 edges"):
        layer(graph, (torch.randn(3, 4), torch.ones(2, 3)), torch.zeros(2))
    with pytest.raises(DGLError, match="TGATConv: out_feats=5 is no multiple of num_heads=2"):
        TGATConv(4, 0, 2, 5)
    with pytest.raises(DGLError, match="edge_feat"):
        TGATConv(4, 2, 2, 4)(dglite.graph(([0], [1])), torch.ones(2, 4), torch.zeros(1))


def test_tgatconv_that_adds_is_pygs_attention_of_tgn():
    """With the same weights, and a query that does not look at the time, which PyG's has not."""
    geometric = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    src, dst = torch.randint(0, 6, (2, 30)).clamp(max=5)
    graph = dglite.graph((src, dst), num_nodes=7)  # node 6 has no in-edges
    x, feat, age = torch.randn(7, 5).double(), torch.randn(30, 3).double(), torch.rand(30).double()
    layer = TGATConv(5, 3, 4, 6, merge="sum").double()
    peer = geometric.TransformerConv(5, 3, heads=2, edge_dim=7).double()
    with torch.no_grad():
        layer.fc_query.weight[:, 5:] = 0
        peer.lin_query.weight.copy_(layer.fc_query.weight[:, :5])
        peer.lin_query.bias.copy_(layer.fc_query.bias)
        for ours, theirs in ((layer.fc_key, peer.lin_key), (layer.fc_value, peer.lin_value)):
            theirs.load_state_dict(ours.state_dict())
        peer.lin_skip.load_state_dict(layer.fc_merge.state_dict())
        layer.fc_value_edge.weight.copy_(layer.fc_key_edge.weight)
        peer.lin_edge.weight.copy_(layer.fc_key_edge.weight)
    encoded = torch.cat([feat, layer.time_encoding(age)], 1)
    close(layer(graph, x, age, feat), peer(x, torch.stack([src, dst]), encoded))
    layer.reset_parameters()
    with pytest.raises(DGLError, match='merge=\'max\' is not known; expected "mlp" or "sum"'):
        TGATConv(5, 3, 4, 6, merge="max")


class MemoryByEvents:
    """The paper's memory, a dictionary of one message for each node."""

    def __init__(self, layer):
        self.layer, self.waiting = layer, {}
        self.state = [torch.zeros(layer.memory_dim, dtype=torch.float64) for _ in range(layer.num_nodes)]
        self.times = [0.0] * layer.num_nodes

    def updated(self, node):
        if node not in self.waiting:
            return self.state[node], self.times[node]
        other, raw, time = self.waiting[node]
        elapsed = self.layer.time_encoding(torch.tensor(time - self.times[node], dtype=torch.float64))
        message = torch.cat([self.state[node], other, raw, elapsed])
        if self.layer.message_module is not None:
            message = self.layer.message_module(message)
        return self.layer.updater(message[None], self.state[node][None])[0], time

    @torch.no_grad()
    def update(self, src, dst, t, raw):
        nodes = {*src, *dst}
        updated = {node: self.updated(node) for node in nodes}
        for node, (state, time) in updated.items():
            self.state[node], self.times[node] = state, time
        for i in sorted(range(len(src)), key=lambda i: t[i]):
            for node, other in ((src[i], dst[i]), (dst[i], src[i])):
                self.waiting[node] = self.state[other], raw[i], float(t[i])


@pytest.mark.parametrize("message_module", [False, True])
def test_memory_is_the_papers(message_module):
    torch.manual_seed(1)
    message = torch.nn.Linear(2 * 4 + 3 + 2, 7) if message_module else None
    layer = TGNMemory(9, 3, 4, 2, message, 7 if message_module else None).double()
    reference, generator = MemoryByEvents(layer), torch.Generator().manual_seed(2)
    for start in range(0, 60, 15):
        src, dst = torch.randint(7, (2, 15), generator=generator)  # with loops; nodes 7 and 8 have no events
        t = torch.randint(start, start + 15, (15,), generator=generator)  # with ties, not sorted
        raw = torch.randn(15, 3, dtype=torch.float64, generator=generator)
        layer.update_state(src, dst, t, raw)
        reference.update(src.tolist(), dst.tolist(), t.tolist(), raw)
        nodes = torch.tensor([3, 0, 3, 8, 6])
        memory, times = layer(nodes)
        expected = [reference.updated(node) for node in nodes.tolist()]
        close(memory, torch.stack([state for state, _ in expected]))
        assert times.tolist() == [time for _, time in expected]
        loss = memory.square().sum()
        assert torch.autograd.grad(loss, layer.updater.weight_ih)[0].abs().sum() > 0
    copy = TGNMemory(9, 3, 4, 2, message, 7 if message_module else None).double()
    copy.load_state_dict(layer.state_dict())
    close(copy(nodes)[0], layer(nodes)[0])
    layer.reset_state()
    assert not layer(torch.arange(9))[0].any()


def test_memory_of_no_events_and_wrong_ones():
    layer = TGNMemory(3, 2, 4, 2)
    none = torch.zeros(0, dtype=torch.int64)
    layer.update_state(none, none, none, torch.zeros(0, 2))
    assert layer(none)[0].shape == (0, 4)
    node = torch.tensor([1])
    before = {name: x.clone() for name, x in layer.state_dict().items()}
    with pytest.raises(DGLError, match="TGNMemory: t "):
        layer.update_state(node, node, none, torch.zeros(1, 2))
    with pytest.raises(DGLError, match=r"TGNMemory: raw_msg has shape \(1, 3\)"):
        layer.update_state(node, node, node, torch.zeros(1, 3))
    assert all(torch.equal(x, before[name]) for name, x in layer.state_dict().items())


def sequences(generator, num_edges=5, k=6, node_feats=2, edge_feats=3):
    def one():
        nodes = torch.randint(-1, 4, (num_edges, k), generator=generator)
        shape, options = (num_edges, k), {"generator": generator}
        features = [torch.randn(*shape, width, **options) for width in (node_feats, edge_feats)]
        return EventSequence(nodes, torch.rand(shape, **options), *features)

    return one(), one()


def noisy(events):
    """Return events, with other values for absent ones."""
    absent = events.nodes < 0
    shaped = [torch.where(absent[..., None], 7.0, x) for x in (events.node_feat, events.edge_feat)]
    return EventSequence(events.nodes, torch.where(absent, 9.0, events.age), *shaped)


def test_missing_events_do_not_count():
    events, others = sequences(torch.Generator().manual_seed(0))
    mixer, former = GraphMixer(2, 3, 4, 8, 5, 6).eval(), DyGFormer(2, 3, 4, 4, 5, 6, patch_size=3).eval()
    node_feat = torch.randn(5, 2)
    change = noisy(events)
    close(
        mixer(events.nodes, events.age, events.edge_feat, node_feat),
        mixer(change.nodes, change.age, change.edge_feat, node_feat),
    )
    for a, b in zip(former(events, others), former(change, noisy(others)), strict=True):
        close(a, b)


def test_dygformer_counts_neighbours_of_both_ends():
    layer = DyGFormer(0, 0, 2, 4, 3, 4)
    layer.count_mlp = torch.nn.Identity()  # counts of both sequences are added up
    layer.fc_out = torch.nn.Linear(8, 3)
    nodes, others = torch.tensor([[5, 7, 5, -1]]), torch.tensor([[7, 7, 9, 5]])
    assert layer._counts(nodes, others)[0, :3, 0].tolist() == [3, 3, 3]
    assert layer._counts(others, nodes)[0, :, 0].tolist() == [3, 3, 1, 3]


def test_graphmixer_is_its_formula():
    torch.manual_seed(0)
    layer = GraphMixer(0, 3, 4, 8, 5, 6, num_layers=1).double().eval()
    (events, _), mixer = sequences(torch.Generator().manual_seed(3)), layer.mixers[0]
    x = torch.cat([events.edge_feat.double(), layer.time_encoding(events.age.double())], -1)
    events.nodes[0] = -1
    there = events.nodes >= 0
    x = layer.fc_event(x) * there[..., None]
    x = x + mixer.over_events(mixer.event_norm(x).transpose(1, 2)).transpose(1, 2)
    x = x + mixer.over_features(mixer.feature_norm(x))
    x = layer.norm(x)
    means = torch.stack([x[i, there[i]].mean(0) if there[i].any() else x.new_zeros(8) for i in range(len(x))])
    close(layer(events.nodes, events.age.double(), events.edge_feat.double()), layer.fc_out(means))


def test_wrong_sequences_are_named():
    events, others = sequences(torch.Generator().manual_seed(0))
    mixer, former = GraphMixer(2, 3, 4, 8, 5, 6), DyGFormer(2, 3, 4, 4, 5, 6)
    with pytest.raises(DGLError, match=r"GraphMixer: events have shape \(5, 5\); expected \(nodes, 6\)"):
        mixer(events.nodes[:, 1:], events.age)
    with pytest.raises(DGLError, match=r"GraphMixer: edge_feat has shape None; expected \(5, 6, 3\)"):
        mixer(events.nodes, events.age)
    with pytest.raises(DGLError, match="GraphMixer: node_feat is missing"):
        mixer(events.nodes, events.age, events.edge_feat)
    with pytest.raises(DGLError, match=r"DyGFormer: node_feat has shape \(5, 6, 0\); expected \(5, 6, 2\)"):
        former(events._replace(node_feat=None), others)
    with pytest.raises(DGLError, match="expected the same"):
        former(events, EventSequence(*(x[:3] for x in others)))
    with pytest.raises(DGLError, match="num_neighbors=6 is no multiple of patch_size=4"):
        DyGFormer(2, 3, 4, 4, 5, 6, patch_size=4)


def test_memory_refuses_times_that_are_nan_or_go_back_and_stays_as_it_was():
    memory = TGNMemory(4, 1, 3, 2)
    feat = torch.ones(2, 1)
    for times in ([5.0, 7.0], [7.0, 8.0]):
        memory.update_state(torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor(times), feat)
    before = {name: x.clone() for name, x in memory.state_dict().items()}
    with pytest.raises(DGLError, match="the time of event 1 is NaN"):
        memory.update_state(torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([9.0, float("nan")]), feat)
    message = r"node 0 has an event at time 3, after one at time 7; give batches in the order of time, and call reset"
    with pytest.raises(DGLError, match=message):
        memory.update_state(torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([3, 9]), feat)
    assert all(torch.equal(x, before[name]) for name, x in memory.state_dict().items())
    memory.reset_state()
    memory.update_state(torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([3, 9]), feat)
