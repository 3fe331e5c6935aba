"""Train a small Llama on text, its tensors partitioned over processes by Tofu; evaluate, save, and go on from there.

    torchrun --nproc-per-node=2 examples/llama.py
    torchrun --nproc-per-node=4 examples/llama.py --resume --epochs 4    goes on with another number of processes

The model is plain torch and knows nothing of processes; it predicts the next word of WikiNER's sentences, which are
downloaded unless --raw-dir or DGLITE_DATA_DIR names a folder that has them. Every tenth row of the text is tested.
After each epoch the parts of all processes are saved to a folder of --folder.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver

from dglite import tofu
from dglite.data import WikiNERDataset


class Attention(nn.Module):
    """Causal attention with rotary positions, in which several heads of queries share one of keys and values."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Return new vectors, (rows, words, width)."""
        rows, words, width = x.shape

        def split(y: torch.Tensor, heads: int) -> torch.Tensor:
            return y.view(rows, words, heads, self.size).transpose(1, 2)

        def turn(y: torch.Tensor) -> torch.Tensor:
            first, second = y.chunk(2, -1)
            return y * cos + torch.cat([-second, first], -1) * sin

        q, k = turn(split(self.q_proj(x), self.heads)), turn(split(self.k_proj(x), self.kv_heads))
        v = split(self.v_proj(x), self.kv_heads)
        k, v = (y.repeat_interleave(self.heads // self.kv_heads, 1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(rows, words, width))


class Block(nn.Module):
    """Attention, then a gated layer of two."""

    def __init__(self, width: int, hidden: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads, kv_heads)
        self.gate_proj, self.up_proj = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Return new vectors, (rows, words, width)."""
        x = x + self.attention(self.before(x), cos, sin)
        y = self.between(x)
        return x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))


class Llama(nn.Module):
    """The decoder of Touvron et al., 2023."""

    def __init__(self, num_words: int, width: int, layers: int, heads: int, kv_heads: int, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(num_words, width)
        self.blocks = nn.ModuleList([Block(width, 3 * width, heads, kv_heads) for _ in range(layers)])
        self.norm, self.lm_head = nn.RMSNorm(width), nn.Linear(width, num_words, bias=False)
        size = width // heads
        frequencies = 10000.0 ** (-torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(length), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the logits of each next word, (rows, words, num_words)."""
        x = self.embed(words)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.lm_head(self.norm(x))


def loss_of(logits: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy of the words that follow, in nats."""
    return F.cross_entropy(logits.flatten(0, 1), following.flatten())


def rows_of(data: WikiNERDataset, sentences: int | None, length: int) -> torch.Tensor:
    """Return the text as rows of ``length + 1`` words; a number of its own stands between sentences."""
    end = torch.tensor([len(data.vocabulary)])
    text = [word for i in range(min(sentences or len(data), len(data))) for word in (data[i].words, end)]
    words = torch.cat([end, *text])
    return words[: 1 + (len(words) - 1) // length * length].unfold(0, length + 1, length)


def perplexity(step: tofu.ParallelStep, rows: torch.Tensor, batch_size: int) -> float:
    """Return the perplexity of a word in whole batches of rows."""
    batches = rows[: len(rows) // batch_size * batch_size].split(batch_size)
    losses = [loss_of(step.forward(batch[:, :-1]), batch[:, 1:]).item() for batch in batches]
    return math.exp(sum(losses) / len(losses))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--width", type=int, default=128, help="size of word vectors; default: %(default)s")
    parser.add_argument("--layers", type=int, default=4, help="blocks; default: %(default)s")
    parser.add_argument("--heads", type=int, default=8, help="of queries, for two one of keys; default: %(default)s")
    parser.add_argument("--length", type=int, default=64, help="words of a row; default: %(default)s")
    parser.add_argument("--batch-size", type=int, default=16, help="rows of a training step; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=2, help="passes over the training data; default: %(default)s")
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="of AdamW; default: %(default)s")
    parser.add_argument("--sentences", type=int, metavar="N", help="use only the first N; default: all")
    parser.add_argument("--raw-dir", help="folder with dev.txt; default: DGLITE_DATA_DIR, else downloaded")
    parser.add_argument("--folder", type=Path, default=Path("llama"), help="for checkpoints; default: %(default)s")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in the folder")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers; default: %(default)s")
    parser.add_argument("--expect", type=float, metavar="PERPLEXITY", help="fail when the perplexity is above")
    return parser.parse_args()


def main() -> None:
    """Train and print what came out."""
    arguments = parse_arguments()
    dist.init_process_group("gloo")
    torch.manual_seed(arguments.seed)
    data = WikiNERDataset(raw_dir=arguments.raw_dir)
    rows = rows_of(data, arguments.sentences, arguments.length)
    test = torch.arange(len(rows)) % 10 == 0
    training, tested = rows[~test], rows[test]

    heads = arguments.heads
    model = Llama(len(data.vocabulary) + 1, arguments.width, arguments.layers, heads, heads // 2, arguments.length)
    optimizer = torch.optim.AdamW(model.parameters(), arguments.learning_rate)
    step = tofu.parallelize(model, loss_of, optimizer, workers=dist.get_world_size())
    batch = training[: arguments.batch_size]
    step.prepare(batch[:, :-1], batch[:, 1:])
    first, received = 0, 0
    if arguments.resume:
        first = max((int(path.name) for path in arguments.folder.iterdir()), default=0)
        state_dict_loader.load({"step": step}, checkpoint_id=arguments.folder / str(first))

    value = math.inf
    for number in range(first, arguments.epochs):
        order = torch.randperm(len(training), generator=torch.Generator().manual_seed(number))
        total, batches = 0.0, order[: len(order) // arguments.batch_size * arguments.batch_size]
        for numbers in batches.split(arguments.batch_size):
            batch = training[numbers]
            total += step.backward(batch[:, :-1], batch[:, 1:]).item()
            step.clip_grad_norm_(1.0)
            step.update()
        received = step.bytes
        model.eval()
        value = perplexity(step, tested, min(arguments.batch_size, len(tested)))
        model.train()
        if dist.get_rank() == 0:
            mean = total * arguments.batch_size / len(batches)
            print(f"epoch {number + 1}: training loss {mean:.3f}, test perplexity {value:.1f}", flush=True)
        state_dict_saver.save({"step": step}, checkpoint_id=arguments.folder / str(number + 1))
    if dist.get_rank() == 0:
        print(f"{received / 1e6:.1f} MB received by a process in a training step")
    dist.destroy_process_group()
    if arguments.expect is not None and value > arguments.expect:
        sys.exit(f"expected a test perplexity of at most {arguments.expect}, got {value:.1f}")


if __name__ == "__main__":
    main()
