"""The example of Lightning, where it is installed: ``pip install dglite[lightning]``."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite.dataloading import DataLoader, GraphDataLoader, NeighborSampler
from tests.examples.conftest import Run

lightning = pytest.importorskip("lightning")


def test_the_example_learns(run: Run) -> None:
    from examples import lightning_sage

    assert "accuracy 0.9" in run(lightning_sage, "--nodes", 600, "--epochs", 8, "--batch-size", 50, "--expect", 0.9)


class Counting(lightning.LightningModule):
    """Notes which nodes it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.seen = torch.nn.Linear(1, 1), []

    def training_step(self, batch: object, index: int) -> torch.Tensor:
        self.seen.append(batch[1].tolist())
        return self.layer(torch.ones(1, 1)).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


@pytest.mark.parametrize("of", ["nodes", "graphs"])
def test_overfitting_takes_the_first_batches_in_order(of: str) -> None:
    g, graphs = dglite.rand_graph(20, 40), [(dglite.rand_graph(2, 1), torch.tensor(i)) for i in range(20)]
    options = {"batch_size": 3, "shuffle": True}
    of_nodes = DataLoader(g, torch.arange(20), NeighborSampler([2]), **options)
    loader = of_nodes if of == "nodes" else GraphDataLoader(graphs, **options)
    model = Counting()
    trainer = lightning.Trainer(
        max_epochs=2,
        overfit_batches=2,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
    )
    with pytest.warns(UserWarning, match="turning off the train dataloader shuffling"):
        trainer.fit(model, loader)
    assert model.seen == [[0, 1, 2], [3, 4, 5]] * 2
