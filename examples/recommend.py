"""Recommend items by other users' choices: a network like PinSAGE, against the most popular items.

    python examples/recommend.py --expect 0.15
    python examples/recommend.py --picture hits.png

Made-up users take items, mostly of one genre of theirs, popular ones more often; genres are told to nobody, and the
last item of each user is hidden. An item's neighbours are those that random walks over users visit most often, weighted
by visits (Ying et al., "Graph convolutional neural networks for web-scale recommender systems", 2018). Two convolutions
over them give it a vector; vectors of items that a user took both are to be nearer, by a margin, than those of items
drawn at random. A user is the mean of the items he took. Hit rate at 10, means of seeds 0 to 2: popular items 0.075,
PinSAGE 0.218.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

import dglite
import dglite.function as fn
from dglite.sampling import PinSAGESampler, random_walk

GENRES = 20


def purchases(num_users: int, num_items: int, each: int) -> tuple[Tensor, Tensor]:
    """Return pairs of a user and an item, those of a user in sequence."""
    user = torch.arange(num_users).repeat_interleave(each)
    genre = torch.where(torch.rand(len(user)) < 0.8, user % GENRES, torch.randint(GENRES, user.shape))
    rank = (torch.rand(len(user)).square() * (num_items // GENRES)).long()  # low ranks are popular
    return user, GENRES * rank + genre


class Conv(nn.Module):
    """Join an item's vector with the mean of its neighbours', weighted by visits."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.neighbour, self.joined = nn.Linear(size, size), nn.Linear(2 * size, size)

    def forward(self, block: dglite.DGLGraph, h: Tensor) -> Tensor:
        with block.local_scope():
            block.srcdata["n"], targets = F.relu(self.neighbour(h)), h[: block.num_dst_nodes()]
            block.update_all(fn.u_mul_e("n", "share", "m"), fn.sum("m", "n"))
            return F.normalize(self.joined(torch.cat([targets, block.dstdata["n"]], 1)))


class PinSAGE(nn.Module):
    """Vectors of items: learned ones, and two convolutions."""

    def __init__(self, graph: dglite.DGLGraph, size: int, neighbours: int) -> None:
        super().__init__()
        self.neighbours = PinSAGESampler(graph, "item", "user", 2, 0.5, 20, neighbours)
        self.items, self.convs = nn.Embedding(graph.num_nodes("item"), size), nn.ModuleList([Conv(size), Conv(size)])

    def forward(self, items: Tensor) -> Tensor:
        """Return vectors (len(items), size) of items, which differ from each other."""
        blocks: list[dglite.DGLGraph] = []
        for _ in self.convs:
            near = self.neighbours(items)
            visits = near.edata["weights"].float()
            near.edata["share"] = dglite.ops.e_div_v(near, visits, dglite.ops.copy_e_sum(near, visits))
            blocks.insert(0, dglite.to_block(near, items))
            items = blocks[0].srcdata[dglite.NID]
        h = self.items(items)
        for conv, block in zip(self.convs, blocks, strict=True):
            h = conv(block, h)
        return h


def train(graph: dglite.DGLGraph, size: int, neighbours: int, epochs: int, batch_size: int) -> PinSAGE:
    """Return a model trained on pairs of items that a user took."""
    model = PinSAGE(graph, size, neighbours)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in (progress := tqdm(range(epochs), unit="epoch", disable=None)):
        losses = []
        for start in torch.randint(graph.num_nodes("item"), (graph.num_nodes("item") // batch_size * 4, batch_size)):
            walks, _ = random_walk(graph, start, metapath=["taken by", "took"])
            first, second = walks[(walks[:, 2] >= 0) & (walks[:, 2] != walks[:, 0])][:, [0, 2]].T
            pairs = first, second, torch.randint(graph.num_nodes("item"), first.shape)
            items, where = torch.cat(pairs).unique(return_inverse=True)
            a, b, other = model(items)[where].chunk(3)
            loss = F.relu((a * other).sum(1) - (a * b).sum(1) + 0.3).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        progress.set_postfix(loss=f"{statistics.mean(losses):.3f}", refresh=False)
    return model


def hit_rates(scores: Tensor, purchased: Tensor, hidden: Tensor, most: int) -> list[float]:
    """Return which share of users has its hidden item among the first 1, 2, ..., ``most`` that it has not taken."""
    best = scores.masked_fill(purchased, -float("inf")).topk(most).indices
    return (best == hidden[:, None]).cumsum(1).float().mean(0).tolist()


def draw(rates: dict[str, list[float]], path: str) -> None:
    """Draw hit rates over the number of items that are shown."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, values in rates.items():
        axes.plot(range(1, len(values) + 1), values, label=name)
    axes.set(xlabel="items shown", ylabel="hit rate", ylim=(0, None), title="The item that was hidden is shown")
    axes.legend(frameon=False)
    figure.savefig(path)
    print(f"picture written to {path}")


def main() -> None:
    """Print the hit rates of both."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--users", type=int, default=2000, help="of the generated data; default: %(default)s")
    parser.add_argument("--items", type=int, default=1000, help="of the generated data; default: %(default)s")
    parser.add_argument("--taken", type=int, default=15, help="items that each user took; default: %(default)s")
    parser.add_argument("--size", type=int, default=32, help="size of the vectors; default: %(default)s")
    parser.add_argument(
        "--neighbours", type=int, default=5, help="neighbours of an item, by random walks; default: %(default)s"
    )
    parser.add_argument("--epochs", type=int, default=10, help="passes over the training data; default: %(default)s")
    parser.add_argument("--batch-size", type=int, default=200, help="items of a training step; default: %(default)s")
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="train N times, with seeds 0, 1, ...; default: %(default)s"
    )
    parser.add_argument("--picture", metavar="FILE", help="draw hit rates, with matplotlib")
    parser.add_argument("--expect", type=float, metavar="RATE", help="fail when the hit rate at 10 is below")
    arguments = parser.parse_args()

    at_10: dict[str, list[float]] = {"popular": [], "PinSAGE": []}
    for seed in range(arguments.seeds):
        torch.manual_seed(seed)
        dglite.seed(seed)
        user, item = purchases(arguments.users, arguments.items, arguments.taken)
        purchased = torch.zeros(arguments.users, arguments.items)
        hidden = item[arguments.taken - 1 :: arguments.taken]
        is_training = hidden[user] != item  # every time that it was taken
        user, item = user[is_training], item[is_training]
        purchased[user, item] = 1.0
        graph = dglite.heterograph(
            {("user", "took", "item"): (user, item), ("item", "taken by", "user"): (item, user)},
            {"user": arguments.users, "item": arguments.items},
        )
        model = train(graph, arguments.size, arguments.neighbours, arguments.epochs, arguments.batch_size)
        with torch.no_grad():
            vectors = model(torch.arange(arguments.items))
        scores = {"popular": purchased.sum(0).expand_as(purchased), "PinSAGE": purchased @ vectors @ vectors.T}
        rates = {name: hit_rates(x, purchased.bool(), hidden, min(50, arguments.items)) for name, x in scores.items()}
        for name, values in rates.items():
            at_10[name].append(values[9])
    for name, values in at_10.items():
        print(f"{name}: hit rate at 10 {statistics.mean(values):.3f}")
    if arguments.picture:
        draw(rates, arguments.picture)
    if arguments.expect is not None and statistics.mean(at_10["PinSAGE"]) < arguments.expect:
        sys.exit(f"expected a hit rate of at least {arguments.expect}, got {statistics.mean(at_10['PinSAGE']):.3f}")


if __name__ == "__main__":
    main()
