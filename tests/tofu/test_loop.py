"""An ordinary training loop: what optimizers, schedulers and modules are told takes effect, or is an error."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel

from dglite import DGLError, tofu
from dglite.backend.torch_dtensor import DTensor
from tests.tofu.workers import Workers


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(2, tmp_path_factory.mktemp("loop"))
    yield workers
    workers.stop()


def net(drop: float = 0.0) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(drop), nn.Linear(8, 4)).double()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(8, 6).double(), torch.randint(4, (8,))


Change = Callable[[nn.Module, torch.optim.Optimizer, int], None]


def plain(make: Callable[[Any], torch.optim.Optimizer], change: Change, steps: int = 5) -> list[float]:
    """Return the losses of ordinary training; ``change`` is called after each step."""
    module, (x, y) = net(), batch()
    optimizer = make(module.parameters())
    losses = []
    for i in range(steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        change(module, optimizer, i)
    return losses


def partitioned(make: Callable[[Any], torch.optim.Optimizer], change: Change, steps: int = 5) -> list[float]:
    module, (x, y) = net(), batch()
    optimizer = make(module.parameters())
    step = tofu.parallelize(module, functional.cross_entropy, optimizer)
    losses = []
    for i in range(steps):
        losses.append(step(x, y).item())
        change(module, optimizer, i)
    return losses


def nothing(module: nn.Module, optimizer: torch.optim.Optimizer, i: int) -> None:
    pass


OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01, "maximize": True}),
    "nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "foreach": True}),
    "adam": ("Adam", {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1}),
    "adamw": ("AdamW", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-3, "fused": True}),
    "nadam": ("NAdam", {"lr": 0.05, "momentum_decay": 0.1, "decoupled_weight_decay": True, "weight_decay": 0.1}),
    "radam": ("RAdam", {"lr": 0.05}),
    "adamax": ("Adamax", {"lr": 0.05}),
    "adadelta": ("Adadelta", {"lr": 1.0, "rho": 0.8}),
    "adagrad": ("Adagrad", {"lr": 0.1, "lr_decay": 0.2, "initial_accumulator_value": 0.3}),
    "rmsprop": ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True}),
    "rprop": ("Rprop", {"lr": 0.01}),
    "asgd": ("ASGD", {"lr": 0.1, "t0": 2}),
}
REFUSED = {"LBFGS", "Adafactor", "Muon", "SparseAdam"}


def maker(name: str, **changed: Any) -> Callable[[Any], torch.optim.Optimizer]:
    kind, options = OPTIMIZERS[name]
    return lambda parameters: getattr(torch.optim, kind)(parameters, **options | changed)


def test_every_optimizer_of_torch_is_listed() -> None:
    names = {
        name
        for name, kind in vars(torch.optim).items()
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer
    }
    assert names <= {kind for kind, _ in OPTIMIZERS.values()} | REFUSED


def train(rank: int, name: str) -> list[float]:
    return partitioned(maker(name), nothing)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_update_as_in_one_process(two: Workers, name: str) -> None:
    expected = plain(maker(name), nothing)
    assert two.run(train, name) == [pytest.approx(expected, rel=1e-9)] * 2


@pytest.mark.parametrize("kind", sorted(REFUSED - {"SparseAdam"}))
def test_optimizers_that_are_not_element_wise_are_refused(kind: str) -> None:
    if not hasattr(torch.optim, kind):
        pytest.skip(f"torch {torch.__version__} has no {kind}")
    module = nn.Linear(6, 4, bias=False)
    optimizer = getattr(torch.optim, kind)(module.parameters())
    with pytest.raises(DGLError, match=rf"{kind} (does not update element by element|cannot update)"):
        tofu.capture(module, functional.mse_loss, (torch.empty(2, 6), torch.empty(2, 4)), optimizer)


# -- options that change while training --------------------------------------------------------------------------------
def changing(key: str) -> Change:
    """Return what changes an option of the first group after each step."""

    def change(module: nn.Module, optimizer: torch.optim.Optimizer, i: int) -> None:
        value = optimizer.param_groups[0][key]
        if isinstance(value, tuple):
            optimizer.param_groups[0][key] = tuple(0.9 * v for v in value)
        elif isinstance(value, bool):
            optimizer.param_groups[0][key] = not value
        else:
            optimizer.param_groups[0][key] = 0.7 * value + 0.01

    return change


CHANGED = [
    ("sgd", ["lr", "momentum", "dampening", "weight_decay", "maximize"]),
    ("adam", ["lr", "betas", "eps", "weight_decay", "maximize"]),
    ("adamw", ["lr", "betas", "eps", "weight_decay", "maximize"]),
    ("rmsprop", ["lr", "alpha", "eps", "weight_decay", "momentum"]),
    ("adagrad", ["lr", "lr_decay", "weight_decay", "eps"]),
]


def change_options(rank: int, name: str, keys: list[str]) -> list[list[float]]:
    return [partitioned(maker(name), changing(key)) for key in keys]


@pytest.mark.parametrize(("name", "keys"), CHANGED, ids=lambda x: x if isinstance(x, str) else "")
def test_changed_options_take_effect(two: Workers, name: str, keys: list[str]) -> None:
    expected = [plain(maker(name), changing(key)) for key in keys]
    unchanged = plain(maker(name), nothing)
    for losses in two.run(change_options, name, keys):
        for result, target in zip(losses, expected, strict=True):
            assert result == pytest.approx(target, rel=1e-9)
    assert all(losses != pytest.approx(unchanged, rel=1e-9) for losses in expected)


L = torch.optim.lr_scheduler
SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "LambdaLR": lambda o: L.LambdaLR(o, lambda i: 0.9**i),
    "MultiplicativeLR": lambda o: L.MultiplicativeLR(o, lambda i: 0.9),
    "StepLR": lambda o: L.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda o: L.MultiStepLR(o, [1, 3], 0.5),
    "ConstantLR": lambda o: L.ConstantLR(o, 0.5, 2),
    "LinearLR": lambda o: L.LinearLR(o, 0.3, 1.0, 4),
    "ExponentialLR": lambda o: L.ExponentialLR(o, 0.8),
    "CosineAnnealingLR": lambda o: L.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda o: L.CosineAnnealingWarmRestarts(o, 2),
    "PolynomialLR": lambda o: L.PolynomialLR(o, 5),
    "OneCycleLR": lambda o: L.OneCycleLR(o, 0.2, total_steps=8),
    "CyclicLR": lambda o: L.CyclicLR(o, 0.01, 0.2, step_size_up=2),
    "ChainedScheduler": lambda o: L.ChainedScheduler([L.ExponentialLR(o, 0.9), L.StepLR(o, 2)]),
    "SequentialLR": lambda o: L.SequentialLR(o, [L.ConstantLR(o, 0.5), L.ExponentialLR(o, 0.5)], [2]),
}


def scheduled(run: Any, scheduler: str, optimizer: str) -> list[float]:
    def make(parameters: Any) -> torch.optim.Optimizer:
        result = maker(optimizer)(parameters)
        result.schedule = SCHEDULERS[scheduler](result)  # type: ignore[attr-defined]
        return result

    return run(make, lambda module, optimizer, i: optimizer.schedule.step())


def train_scheduled(rank: int, optimizer: str) -> dict[str, list[float]]:
    with warnings.catch_warnings():
        # a scheduler that is not told of the optimizer's steps warns
        warnings.filterwarnings("error", message=".*lr_scheduler.step.*")
        return {name: scheduled(partitioned, name, optimizer) for name in SCHEDULERS}


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_schedulers_take_effect(two: Workers, optimizer: str) -> None:
    expected = {name: scheduled(plain, name, optimizer) for name in SCHEDULERS}
    for losses in two.run(train_scheduled, optimizer):
        for name, result in losses.items():
            assert result == pytest.approx(expected[name], rel=1e-9), name


# -- modules -----------------------------------------------------------------------------------------------------------
def frozen_then_thawed(module: nn.Module, optimizer: torch.optim.Optimizer, i: int) -> None:
    module[0].requires_grad_(i % 2 == 1)  # type: ignore[index]


def evaluated(module: nn.Module, optimizer: torch.optim.Optimizer, i: int) -> None:
    module.train(i % 2 == 1)


def changes(rank: int) -> list[list[float]]:
    return [partitioned(maker("adamw", fused=False), change) for change in (frozen_then_thawed, evaluated)]


def test_frozen_parameters_and_modes_take_effect(two: Workers) -> None:
    expected = [plain(maker("adamw", fused=False), change) for change in (frozen_then_thawed, evaluated)]
    for losses in two.run(changes):
        for result, target in zip(losses, expected, strict=True):
            assert result == pytest.approx(target, rel=1e-9)


def test_frozen_parameters_may_be_given_to_the_optimizer() -> None:
    module = net()
    module[0].requires_grad_(False)
    plan = tofu.plan(module, functional.cross_entropy, batch(), torch.optim.AdamW(module.parameters()), 2)
    assert "4.weight.exp_avg" in plan.captured.state
    assert "0.weight.exp_avg" not in plan.captured.state


def evaluate(rank: int) -> tuple[torch.Tensor, torch.Tensor, list[str]]:
    """Return what `forward` gives in both modes, and the errors of what cannot be had."""
    module, (x, y) = net(0.5), batch()
    optimizer = maker("adam")(module.parameters())
    step = tofu.parallelize(module, functional.cross_entropy, optimizer)
    step(x, y)
    module.eval()
    logits = step.forward(x)
    whole = net(0.5)
    whole.load_state_dict(step.gather())
    whole.eval()
    errors = []
    for use in (
        lambda: module(x),
        lambda: module[0].weight + 1,
        lambda: module.double(),
        lambda: step.clip_grad_norm_(1.0),
        lambda: (step.backward(x, y), optimizer.step()),
        lambda: nn.utils.clip_grad_norm_(module.parameters(), 1.0),
        lambda: module[0].weight.grad + 1,
        lambda: step(x + rank, y),
    ):
        with pytest.raises(DGLError) as caught:
            use()
        errors.append(str(caught.value))
    return logits, whole(x).detach(), errors


def test_a_module_in_parts_is_evaluated_by_the_step_and_by_nothing_else(two: Workers) -> None:
    words = ["step.forward", "step.gather", "0.weight", "step.backward", "step.update()", "clip_grad_norm_", "update"]
    for logits, expected, errors in two.run(evaluate):
        torch.testing.assert_close(logits, expected)
        for word, error in zip([*words, "values of inputs"], errors, strict=True):
            assert word in error


def states(rank: int) -> tuple[list[float], Any]:
    """Train, take the state dicts of module and optimizer into another step, and train on."""
    module, (x, y) = net(), batch()
    optimizer = maker("adam")(module.parameters())
    step = tofu.parallelize(module, functional.cross_entropy, optimizer)
    losses = [step(x, y).item() for _ in range(2)]
    weights, state = module.state_dict(), optimizer.state_dict()
    assert all(isinstance(v, DTensor) for v in weights.values())
    assert isinstance(state["state"][0]["exp_avg"], DTensor)
    whole = {name: v.full_tensor() for name, v in weights.items()}
    first = state["state"][0]["exp_avg"].full_tensor()
    other = net()
    fresh = maker("adam")(other.parameters())
    second = tofu.parallelize(other, functional.cross_entropy, fresh)
    second(x, y)
    other.load_state_dict(weights)
    fresh.load_state_dict(state)
    losses += [second(x, y).item() for _ in range(3)]
    return losses, (whole, first)


def test_state_dicts_of_module_and_optimizer_go_both_ways(two: Workers) -> None:
    expected = plain(maker("adam"), nothing)
    module, (x, y) = net(), batch()
    optimizer = maker("adam")(module.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        functional.cross_entropy(module(x), y).backward()
        optimizer.step()
    for losses, (whole, first) in two.run(states):
        assert losses == pytest.approx(expected, rel=1e-9)
        for name, value in module.state_dict().items():
            torch.testing.assert_close(whole[name], value)
        torch.testing.assert_close(first, optimizer.state_dict()["state"][0]["exp_avg"])


def clip(rank: int) -> tuple[list[float], list[float]]:
    module, (x, y) = net(), batch()
    step = tofu.parallelize(module, functional.cross_entropy, maker("adamw")(module.parameters()))
    losses, norms = [], []
    for _ in range(4):
        losses += [step.backward(x[:4], y[:4]).item(), step.backward(x[4:], y[4:]).item()]
        norms.append(step.clip_grad_norm_(0.1).item())
        step.update()
    return losses, norms


def test_gradients_accumulate_and_are_clipped(two: Workers) -> None:
    module, (x, y) = net(), batch()
    optimizer = maker("adamw")(module.parameters())
    losses, norms = [], []
    for _ in range(4):
        for part in (slice(0, 4), slice(4, 8)):
            loss = functional.cross_entropy(module(x[part]), y[part])
            loss.backward()
            losses.append(loss.item())
        norms.append(nn.utils.clip_grad_norm_(module.parameters(), 0.1).item())
        optimizer.step()
        optimizer.zero_grad()
    for result, clipped in two.run(clip):
        assert result == pytest.approx(losses, rel=1e-6)
        assert clipped == pytest.approx(norms, rel=1e-6)


class Output(dict):
    """As language models return them."""

    @property
    def loss(self) -> torch.Tensor:
        return self["loss"]


class Model(nn.Module):
    """Takes a batch by name and returns its loss, under autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None, scale: float = 1.0) -> Output:
        logits = self.net(x) * scale
        out = Output(logits=logits)
        if labels is not None:
            out["loss"] = functional.cross_entropy(logits.float(), labels)
        return out


def inferred(rank: int) -> list[float]:
    module, (x, y) = net(), batch()
    step = tofu.parallelize(module, functional.cross_entropy, torch.optim.SGD(module.parameters(), 0.1))
    losses = [step(x, y).item()]
    module.eval()
    with torch.inference_mode():
        losses.append(functional.cross_entropy(step.forward(x.clone()), y).item())
    module.train()
    return [*losses, step(x, y).item()]


def test_inference_mode_is_no_obstacle(two: Workers) -> None:
    module, (x, y) = net(), batch()
    optimizer, losses = torch.optim.SGD(module.parameters(), 0.1), []
    for train in (True, False, True):
        loss = functional.cross_entropy(module.train(train)(x), y)
        losses.append(loss.item())
        if train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert two.run(inferred) == [pytest.approx(losses)] * 2


def averaged(run: Any, use_buffers: bool) -> list[torch.Tensor]:
    """Return the tensors of an averaged model that was made before the first step."""
    models: list[Any] = []

    def average(module: nn.Module, optimizer: torch.optim.Optimizer, i: int) -> None:
        if i == 0:
            with torch.random.fork_rng():
                models.append(AveragedModel(net(), use_buffers=use_buffers))
        models[0].update_parameters(module)

    run(maker("adam"), average)
    return list(models[0].state_dict().values())


def train_averaged(rank: int, use_buffers: bool) -> list[torch.Tensor]:
    return averaged(partitioned, use_buffers)


@pytest.mark.parametrize("use_buffers", [False, True])
def test_an_averaged_model_is_whole_in_each_process(two: Workers, use_buffers: bool) -> None:
    for tensors in two.run(train_averaged, use_buffers):
        torch.testing.assert_close(tensors, averaged(plain, use_buffers))


def test_a_module_in_parts_cannot_be_copied(two: Workers) -> None:
    assert all("is in parts on the workers" in text for text in two.run(copied))


def copied(rank: int) -> str:
    module, (x, y) = net(), batch()
    tofu.parallelize(module, functional.cross_entropy, torch.optim.SGD(module.parameters(), 0.1))(x, y)
    try:
        AveragedModel(module)
    except DGLError as error:
        return str(error)
    return "copied"


def named_batch() -> dict[str, Any]:
    x, y = batch()
    return {"x": x.float(), "labels": y, "scale": 2.0}


def model() -> tuple[Model, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = Model()
    return model, torch.optim.AdamW(model.parameters(), 0.05)


def train_model(rank: int) -> tuple[list[float], set[torch.dtype]]:
    step_of, optimizer = model()
    step = tofu.parallelize(step_of, optimizer, workers=2)
    losses = []
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            losses.append(step(**named_batch()).item())
    return losses, {p.dtype for p in step.parts().values()}


def test_batches_by_name_and_autocast(two: Workers) -> None:
    trained, optimizer = model()
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = trained(**named_batch()).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for result, dtypes in two.run(train_model):
        assert result == pytest.approx(losses, rel=2e-2)
        assert dtypes == {torch.float32}


def hooked(rank: int) -> list[bool]:
    module, (x, y) = net(), batch()
    before = module[0].weight.detach().clone()
    module[0].weight.register_hook(lambda g: g * 0)
    step = tofu.parallelize(module, functional.cross_entropy, torch.optim.SGD(module.parameters(), 1.0))
    step(x, y)
    other = net()
    other[0].weight.register_post_accumulate_grad_hook(lambda p: None)
    with pytest.raises(DGLError, match="register_post_accumulate_grad_hook"):
        tofu.parallelize(other, functional.cross_entropy, torch.optim.SGD(other.parameters(), 1.0))(x, y)
    return [torch.equal(step.gather()["0.weight"], before), torch.equal(step.gather()["4.weight"], net()[4].weight)]


def test_hooks_of_parameters_take_effect(two: Workers) -> None:
    assert two.run(hooked) == [[True, False]] * 2


def settings_differ(rank: int) -> list[str]:
    """Return the errors of processes that differ after the first step."""
    results = []
    x, y = batch()

    def lr(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.param_groups[0]["lr"] = 0.1 + rank

    def mode(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        module.train(bool(rank))

    def frozen(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        module[0].requires_grad_(bool(rank))  # type: ignore[index]

    for change in (lr, mode, frozen):
        module = net()
        optimizer = maker("sgd")(module.parameters())
        step = tofu.parallelize(module, functional.cross_entropy, optimizer)
        step(x, y)
        change(module, optimizer)
        with pytest.raises(DGLError) as caught:
            step(x, y)
        results.append(str(caught.value))
    return results


def test_differing_settings_are_told_at_any_step(two: Workers) -> None:
    for lr, mode, frozen in two.run(settings_differ):
        assert "[1] have other optimizers" in lr
        assert "[1] have other inputs, or modes" in mode
        assert "[1] have other inputs, or modes" in frozen


def train_shares(rank: int) -> tuple[list[float], torch.Tensor, list[str]]:
    """Train on this process's half of the batch, then pass what cannot be a share."""
    module, (x, y) = net(), batch()
    optimizer = maker("adam")(module.parameters())
    step = tofu.parallelize(module, functional.cross_entropy, optimizer, split_batch=True)
    share = slice(4 * rank, 4 * rank + 4)
    losses = [step(x[share], y[share]).item() for _ in range(5)]
    module.eval()
    logits = step.forward(x[share])
    errors = []
    for rows, split in ((3 + rank, True), (4, rank == 0)):
        other = net()
        other_step = tofu.parallelize(
            other, functional.cross_entropy, maker("adam")(other.parameters()), split_batch=split
        )
        with pytest.raises(DGLError) as caught:
            other_step(x[:rows], y[:rows])
        errors.append(str(caught.value))
    return losses, logits, errors


def test_each_process_may_pass_its_share_of_the_batch(two: Workers) -> None:
    module, (x, y) = net(), batch()
    optimizer = maker("adam")(module.parameters())
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = functional.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    expected = module.eval()(x).detach()
    for result, logits, errors in two.run(train_shares):
        assert result == pytest.approx(losses, rel=1e-9)
        torch.testing.assert_close(logits, expected)
        assert "other inputs" in errors[0]
        assert "split_batch" in errors[1]


def test_zero_grad_discards_gradients(two: Workers) -> None:
    for rank_losses in two.run(discard):
        assert rank_losses[0] == rank_losses[1]


def discard(rank: int) -> tuple[list[float], list[float]]:
    """Return the losses of a loop with ``zero_grad``, which also discards a backward pass, and without."""
    losses = []
    for clear in (True, False):
        module, (x, y) = net(), batch()
        optimizer = maker("sgd")(module.parameters())
        step = tofu.parallelize(module, functional.cross_entropy, optimizer)
        values = []
        for _ in range(3):
            if clear and values:
                optimizer.zero_grad()
                step.backward(x, y)
                optimizer.zero_grad(set_to_none=len(values) == 1)
                module.zero_grad()
            values.append(step(x, y).item())
        losses.append(values)
    return losses[0], losses[1]


class Scaled(nn.Linear):
    """A layer that reads a global number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * SCALE


SCALE = 1.0


def rescaled(rank: int) -> list[float]:
    global SCALE
    torch.manual_seed(0)
    module = Scaled(4, 3)
    x, y = torch.ones(4, 4), torch.zeros(4, dtype=torch.long)
    step = tofu.parallelize(module, functional.cross_entropy, torch.optim.SGD(module.parameters(), 0.0))
    losses = [step(x, y).item()]
    SCALE = 0.0
    losses.append(step(x, y).item())
    SCALE = 1.0
    return losses


@pytest.mark.filterwarnings("ignore:a new plan")
def test_globals_that_a_module_reads_are_noticed(two: Workers) -> None:
    for before, after in two.run(rescaled):
        assert after == pytest.approx(torch.tensor(3.0).log().item())
        assert before != after


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (lambda: nn.Sequential(nn.Embedding(8, 4, max_norm=1.0), nn.Flatten()), "writes into the parameters 0.weight"),
        (lambda: nn.Sequential(nn.Embedding(8, 4, sparse=True), nn.Flatten()), "sparse=False"),
        (lambda: nn.EmbeddingBag(8, 4), "nn.Embedding, and a sum"),
        (lambda: nn.LazyLinear(4), "call it once before"),
    ],
)
def test_what_cannot_be_planned_says_what_to_do(module: Callable[[], nn.Module], words: str) -> None:
    ids = torch.zeros(4, 2, dtype=torch.long)
    with pytest.raises(DGLError, match=words):
        tofu.capture(module(), functional.cross_entropy, (ids, torch.zeros(4, dtype=torch.long)))
