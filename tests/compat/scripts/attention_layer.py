"""A layer of one's own with DGL's helpers, on a bipartite graph, a block and a pair of features."""

import dgl
import dgl.function as fn
import numpy as np
import torch as th
from dgl import backend as F
from dgl.base import DGLError
from dgl.nn.functional import edge_softmax
from dgl.nn.pytorch.utils import Identity
from dgl.utils import check_eq_shape, expand_as_pair
from torch import nn


class Attention(nn.Module):
    def __init__(self, in_feats, out_feats, residual=True):
        super().__init__()
        self._in_src_feats, self._in_dst_feats = expand_as_pair(in_feats)
        self.fc = nn.Linear(self._in_src_feats, out_feats, bias=False)
        self.score = nn.Linear(2 * out_feats, 1)
        self.residual = Identity() if residual else None

    def edge_attention(self, edges):
        both = F.cat([edges.src["z"], edges.dst["z"]], dim=1)
        return {"e": nn.functional.leaky_relu(self.score(both))}

    def forward(self, graph, feat):
        with graph.local_scope():
            if (graph.in_degrees() == 0).any():
                raise DGLError("There are 0-in-degree nodes in the graph")
            src, dst = expand_as_pair(feat, graph)
            check_eq_shape((src, dst))
            graph.srcdata["z"], graph.dstdata["z"] = self.fc(src), self.fc(dst)
            graph.apply_edges(self.edge_attention)
            graph.edata["a"] = edge_softmax(graph, graph.edata.pop("e"))
            graph.update_all(fn.u_mul_e("z", "a", "m"), fn.sum("m", "h"))
            return graph.dstdata["h"] + self.residual(graph.dstdata["z"])


def main():
    np.random.seed(0)
    th.manual_seed(0)
    g = dgl.add_self_loop(dgl.rand_graph(30, 120))
    layer = Attention(5, 5)
    x = F.copy_to(F.randint((30, 5), F.float32, F.cpu(), 0, 4), F.context(g.nodes()))
    assert F.ndim(x) == 2 and F.dtype(x) == F.float32 == F.data_type_dict["float32"]
    full = layer(g, x)

    seeds = th.tensor([3, 1, 4])
    block = dgl.to_block(dgl.in_subgraph(g, seeds), seeds)
    part = layer(block, F.gather_row(x, block.srcdata[dgl.NID]))
    assert F.allclose(part, F.gather_row(full, seeds))

    bipartite = dgl.heterograph({("user", "rates", "item"): ([0, 1, 2, 2], [0, 0, 1, 0])})
    out = layer(bipartite, (x[:3], x[3:5]))
    assert F.shape(out) == (2, 5)

    try:
        layer(dgl.graph(([0], [1])), x[:2])
    except dgl.DGLError as error:
        print("refused:", error)
    F.backward(F.reduce_sum(out))
    print("gradient", not F.is_no_grad(layer.fc.weight))


if __name__ == "__main__":
    main()
