"""Directional graph network."""

from __future__ import annotations

from typing import final

from ...backend import Tensor
from ...errors import DGLError
from ...graph import DGLGraph
from ...structure.adjacency import Adjacency
from .. import functional
from .pnaconv import PNAConv


@final
class DGNConv(PNAConv):
    r"""Directional graph network of Beaini et al., "Directional graph networks", 2021: :class:`PNAConv` with
    aggregators along the gradients of the graph's smoothest vectors.

    For an eigenvector :math:`\phi` of the Laplacian, :math:`F_{uv} = (\phi_u - \phi_v) / \sum_{u'} |\phi_{u'} -
    \phi_v|`; ``"dir1-av"`` is :math:`\sum_u |F_{uv}| m_{uv}`, and ``"dir1-dx"`` is :math:`|\sum_u F_{uv} m_{uv} -
    h_v \sum_u F_{uv}|`. ``"dir2-av"`` and so on are of the second and third vector.

    Parameters and shapes are those of :class:`PNAConv`.
    """

    known_aggregators = (*functional.AGGREGATORS, *functional.DIRECTIONS)

    def forward(  # type: ignore[override]
        self, graph: DGLGraph, node_feat: Tensor, edge_feat: Tensor | None = None, eig_vec: Tensor | None = None
    ) -> Tensor:
        """Return the new features.

        ``eig_vec`` (num_nodes, at least as many as are used) holds the vectors, see :func:`dglite.lap_pe`. Raises
        ``DGLError`` for missing features and vectors, wrong widths and numbers of rows.
        """
        functional.adjacency_of(graph)  # complains of other things before any of their attributes is read
        used = max([int(name[3]) for name in self._aggregators if name.startswith("dir")], default=0)
        if used and eig_vec is None:
            raise DGLError(f"DGNConv: eig_vec is missing; its aggregators read (num_nodes, {used})")
        if used and eig_vec is not None:
            functional.require_rows(self, "eig_vec", eig_vec, graph.num_nodes(), "nodes")
            if eig_vec.ndim != 2 or eig_vec.shape[1] < used:
                shape = tuple(eig_vec.shape)
                raise DGLError(f"DGNConv: eig_vec has shape {shape}; expected (num_nodes, {used}) or more")
        return self._compute(graph, node_feat, edge_feat, eig_vec)

    def _aggregate(
        self, adjacency: Adjacency, operands: list[Tensor], node_feat: Tensor, fields: Tensor | None
    ) -> list[Tensor]:
        plain = [name for name in self._aggregators if not name.startswith("dir")]
        statistics = dict(zip(plain, functional.statistics(adjacency, operands, plain), strict=True))
        for name in self._aggregators:
            if name not in statistics and fields is not None:
                number = int(name[3]) - 1
                field = fields[:, number : number + 1]
                statistics[name] = functional.directional(adjacency, operands, field, node_feat, name[-2:])
        return [statistics[name] for name in self._aggregators]
