"""Positional encodings from the Laplacian's eigenvectors."""

from __future__ import annotations

from typing import final

from ...backend import Tensor, framework
from ...errors import DGLError
from ..base import TorchLayer, nn


@final
class LapPosEncoder(TorchLayer):
    """Learned positions of Kreuzer et al., "Rethinking graph transformers with spectral attention", 2021.

    A node's entries of the Laplacian's eigenvectors, each with its eigenvalue, go through a transformer or through
    linear layers and are added up, as a set. NaN, which fills up small graphs, is left out. It needs torch.

    Parameters
    ----------
    model_type
        ``"Transformer"`` or ``"DeepSet"``; another raises ``ValueError``.
    num_layer
        Layers of that.
    k
        How many eigenvectors there are.
    dim
        Size of the result.
    n_head
        Heads of the transformer.
    batch_norm
        Whether each of the k positions is normalised over the batch first.
    num_post_layer
        Linear layers, each with ReLU, after the sum.

    Shapes
    ------
    eigvals (N, k), eigvecs (N, k), of :func:`dglite.lap_pe` -> (N, dim)
    """

    def __init__(
        self,
        model_type: str,
        num_layer: int,
        k: int,
        dim: int,
        n_head: int = 1,
        batch_norm: bool = False,
        num_post_layer: int = 0,
    ) -> None:
        super().__init__()
        self.model_type, self.k = model_type, k
        self.linear = nn.Linear(2, dim)
        if model_type == "Transformer":
            layer = nn.TransformerEncoderLayer(d_model=dim, nhead=n_head, batch_first=True)
            # Nested tensors cannot be compiled, and give the same.
            self.pe_encoder: nn.Module = nn.TransformerEncoder(layer, num_layers=num_layer, enable_nested_tensor=False)
        elif model_type == "DeepSet":
            if num_layer > 1:
                self.linear = nn.Linear(2, 2 * dim)
            self.pe_encoder = nn.Sequential(nn.ReLU(), *_linear_layers(2 * dim, dim, num_layer - 1))
        else:
            raise ValueError(
                f"LapPosEncoder: model_type={model_type!r} is not known; expected 'Transformer' or 'DeepSet'"
            )
        self.raw_norm = nn.BatchNorm1d(k) if batch_norm else None
        self.post_mlp: nn.Module | None = None
        if num_post_layer == 1:
            self.post_mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU())
        elif num_post_layer > 1:
            first = nn.Linear(dim, 2 * dim), nn.ReLU()
            self.post_mlp = nn.Sequential(*first, *_linear_layers(2 * dim, dim, num_post_layer - 1))

    def forward(self, eigvals: Tensor, eigvecs: Tensor) -> Tensor:
        """Return the positions. Raises ``DGLError`` unless both inputs are (N, k)."""
        for name, x in (("eigvals", eigvals), ("eigvecs", eigvecs)):
            if x.ndim != 2 or x.shape[1] != (self.k or x.shape[1]) or x.shape[0] != eigvals.shape[0]:
                raise DGLError(
                    f"LapPosEncoder: {name} has shape {tuple(x.shape)}; expected (N, {self.k}), as of both inputs"
                )
        pairs = framework.stack([eigvecs, eigvals], -1).to(self.linear.weight.dtype)
        empty = framework.isnan(pairs)
        pairs, left_out = pairs.masked_fill(empty, 0.0), empty[:, :, 1]
        if self.raw_norm is not None:
            pairs = self.raw_norm(pairs)
        hidden = self.linear(pairs)
        if self.model_type == "Transformer":
            hidden = self.pe_encoder(hidden, src_key_padding_mask=left_out)
        else:
            hidden = self.pe_encoder(hidden)
        total = hidden.masked_fill(left_out[..., None], 0.0).sum(1)
        return total if self.post_mlp is None else self.post_mlp(total)


def _linear_layers(hidden: int, out: int, count: int) -> list[nn.Module]:
    """Return ``count`` linear layers with ReLU, all but the last from ``hidden`` to ``hidden``."""
    layers: list[nn.Module] = []
    for i in range(count):
        layers += [nn.Linear(hidden, out if i + 1 == count else hidden), nn.ReLU()]
    return layers
