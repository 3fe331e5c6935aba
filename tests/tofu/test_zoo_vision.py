"""Models of torchvision and timm, made small, train over two processes as in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dglite import tofu
from tests.tofu.workers import Workers

torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")
timm = pytest.importorskip("timm", reason="timm is not installed")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(2, tmp_path_factory.mktemp("vision"))
    yield workers
    workers.stop()


def _convnext() -> nn.Module:
    stages = [
        torchvision.models.convnext.CNBlockConfig(8, 16, 1),
        torchvision.models.convnext.CNBlockConfig(16, None, 2),
    ]
    return torchvision.models.ConvNeXt(stages, num_classes=10)


def _regnet() -> nn.Module:
    params = torchvision.models.regnet.BlockParams(
        [1, 2], widths=[8, 16], group_widths=[4, 8], bottleneck_multipliers=[1.0, 1.0], strides=[2, 2], se_ratio=0.25
    )
    return torchvision.models.RegNet(params, num_classes=10)


CASES: dict[str, Callable[[], nn.Module]] = {
    "torchvision ResNet": lambda: torchvision.models.ResNet(
        torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=10
    ),
    "torchvision ConvNeXt": _convnext,
    "torchvision RegNet": _regnet,
    "torchvision ViT": lambda: torchvision.models.VisionTransformer(32, 8, 2, 4, 16, 32, num_classes=10),
    "timm ResNet": lambda: timm.models.resnet.ResNet(
        timm.models.resnet.Bottleneck, (1, 1, 1, 1), num_classes=10, channels=(8, 16, 32, 64)
    ),
    "timm ConvNeXt": lambda: timm.models.convnext.ConvNeXt(depths=(1, 1, 2, 1), dims=(8, 16, 32, 64), num_classes=10),
    "timm ViT": lambda: timm.models.vision_transformer.VisionTransformer(
        img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=4, num_classes=10
    ),
    "timm Mixer": lambda: timm.models.mlp_mixer.MlpMixer(
        img_size=32, patch_size=8, num_blocks=2, embed_dim=16, num_classes=10
    ),
}


def work(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a model, images and labels, equal in each process."""
    torch.manual_seed(0)
    module = CASES[name]().double()
    return module.train(), torch.randn(8, 3, 32, 32).double(), torch.randint(10, (8,))


def train(rank: int, name: str) -> list[float]:
    module, images, labels = work(name)
    step = tofu.parallelize(module, F.cross_entropy, torch.optim.SGD(module.parameters(), 0.05, momentum=0.9))
    return [step(images, labels).item() for _ in range(3)]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_train_as_one(two: Workers, name: str) -> None:
    module, images, labels = work(name)
    optimizer = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert two.run(train, name) == [pytest.approx(losses, rel=1e-6)] * 2
