"""Edge scores that wait until something reads them against scores that are computed at once, and plain torch.

How many edges a graph has decides which of the first two happens; nothing else may depend on it.
"""

from __future__ import annotations

import copy
import io
import threading
import types
from collections import namedtuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.autograd import graph as autograd_graph
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import dglite
import dglite.function as fn
from dglite.backend import torch_deferred
from dglite.nn.functional import edge_softmax
from dglite.ops import scores
from tests.versions import defers_scores

pytestmark = defers_scores

EDGES = ([0, 0, 1, 2, 2, 3, 3, 1], [1, 1, 2, 2, 3, 3, 1, 2])


class Steps:
    """Attention's steps by dglite, and the leaves ``ft``, ``el`` and ``er`` that they are called with."""

    def __init__(self, device="cpu"):
        torch.manual_seed(0)
        self.leaves = [torch.randn(4, 2, width, dtype=torch.float64).to(device).requires_grad_() for width in (3, 1, 1)]
        self.ft, self.el, self.er = self.leaves
        self.g = dglite.graph(EDGES).to(device)

    def scores(self, el, er):
        self.g.ndata.update({"el": el, "er": er})
        self.g.apply_edges(fn.u_add_v("el", "er", "e"))
        return self.g.edata.pop("e")

    def weights(self, e):
        return edge_softmax(self.g, e)

    def attend(self, ft, a):
        with self.g.local_scope():
            self.g.ndata["ft"], self.g.edata["a"] = ft, a
            self.g.update_all(fn.u_mul_e("ft", "a", "m"), fn.sum("m", "out"))
            return self.g.ndata["out"]

    def layer(self, ft, el, er):
        return self.attend(ft, self.weights(F.leaky_relu(self.scores(el, er), 0.2)))

    def gradients(self, result, inputs=None):
        weights = torch.cos(torch.arange(result.numel(), dtype=result.dtype, device=result.device)).view_as(result)
        grads = torch.autograd.grad((result * weights).sum(), inputs or self.leaves, allow_unused=True)
        return [torch.zeros(()) if x is None else x for x in grads]


class PlainSteps(Steps):
    """The same by torch."""

    def scores(self, el, er):
        src, dst = map(torch.tensor, EDGES)
        return el[src] + er[dst]

    def weights(self, e):
        dst = torch.tensor(EDGES[1])
        return torch.cat([torch.softmax(e[dst == v], 0) for v in range(4)])[
            torch.argsort(torch.argsort(dst, stable=True))
        ]

    def attend(self, ft, a):
        src, dst = map(torch.tensor, EDGES)
        return torch.zeros(4, 2, 3, dtype=ft.dtype).index_add(0, dst, ft[src] * a)


def change_before_reading(s):
    el, er = s.el * 1, s.er * 1
    e = s.scores(el, er)
    a = s.weights(F.leaky_relu(e, 0.2))
    el.mul_(3)
    er.data.add_(1)
    out = s.attend(s.ft, a)
    return e.detach(), out, s.gradients(out + el.sum())


def change_between_forward_and_backward(s):
    el = s.el * 1
    out = s.layer(s.ft, el, s.er)
    el.mul_(3)
    return s.gradients(out)


def change_through_numpy(s):
    columns = s.el.detach().clone(), s.er.detach().clone()
    a = s.weights(s.scores(*columns))
    columns[0].numpy()[:] = 5.0
    return s.attend(s.ft, a)


def optimizer_step(s):
    a = s.weights(s.scores(s.el, s.er))
    s.el.grad = torch.ones_like(s.el)
    torch.optim.SGD([s.el], lr=0.5).step()
    return a.detach(), s.attend(s.ft, a)


def whole_layer_in_a_checkpoint(s):
    return s.gradients(checkpoint(s.layer, s.ft, s.el, s.er, use_reentrant=False))


def reentrant_checkpoint(s):
    checkpoint(s.layer, s.ft, s.el, s.er, use_reentrant=True).cos().sum().backward()
    return [x.grad for x in s.leaves]


def read_in_a_checkpoint(s):
    def region(ft, el, er):
        return F.leaky_relu(s.scores(el, er), 0.2).exp() * ft.sum()

    return s.gradients(checkpoint(region, s.ft, s.el, s.er, use_reentrant=False))


def made_before_a_checkpoint(s):
    e = s.scores(s.el, s.er)
    return s.gradients(checkpoint(lambda ft: e.exp() * ft.sum(), s.ft, use_reentrant=False))


def read_after_a_checkpoint_has_attended(s):
    a = s.weights(s.scores(s.el, s.er))
    out = checkpoint(lambda ft: s.attend(ft, a), s.ft, use_reentrant=False)
    return s.gradients(out * a.exp().sum())


def steps_continue_in_a_checkpoint(s):
    e = s.scores(s.el, s.er)
    out = checkpoint(lambda ft: s.attend(ft, s.weights(F.leaky_relu(e, 0.2))), s.ft, use_reentrant=False)
    return s.gradients(out * e.exp().sum())


def read_after_the_checkpoint_that_made_them(s):
    def region(ft, el, er):
        a = s.weights(s.scores(el, er))
        return s.attend(ft, a), a

    out, a = checkpoint(region, s.ft, s.el, s.er, use_reentrant=False)
    return s.gradients(out * a.exp().sum())


def nested_checkpoints(s):
    def outer(ft, el, er):
        a = s.weights(s.scores(el, er))
        return checkpoint(lambda ft: s.attend(ft, a) * a.exp().sum(), ft, use_reentrant=False).cos()

    return s.gradients(checkpoint(outer, s.ft, s.el, s.er, use_reentrant=False))


def saved_on_cpu(s):
    with autograd_graph.save_on_cpu():
        out = s.layer(s.ft, s.el, s.er)
    e = s.scores(s.el, s.er)
    with autograd_graph.save_on_cpu():
        return s.gradients(out), s.gradients(e.exp())


def saved_tensor_hooks(s):
    with autograd_graph.saved_tensors_hooks(lambda x: x.numpy(force=True).copy(), torch.from_numpy):
        out = s.layer(s.ft, s.el, s.er)
        e = s.scores(s.el, s.er)
    return s.gradients(out), s.gradients(e.exp())


def multi_grad_hook(s):
    seen, e = [], s.scores(s.el, s.er)
    autograd_graph.register_multi_grad_hook([e], lambda grads: seen.append(grads[0].clone()))
    s.weights(e).cos().sum().backward()
    return seen


def gradient_edge(s):
    e = s.scores(s.el, s.er)
    edge = autograd_graph.get_gradient_edge(e)
    return torch.autograd.grad(s.weights(e).cos().sum(), edge)


def hook_of_the_node(s):
    seen, e = [], s.scores(s.el, s.er)
    e.grad_fn.register_hook(lambda inputs, outputs: seen.append(outputs[0].clone()))
    s.weights(e).cos().sum().backward()
    return seen


def gradients_of_the_scores(s):
    e = s.scores(s.el, s.er)
    e.retain_grad()
    seen = []
    e.register_hook(lambda grad: seen.append(grad.clone()))
    out = s.attend(s.ft, s.weights(F.leaky_relu(e, 0.2)))
    (first,) = torch.autograd.grad(out.cos().sum(), e, retain_graph=True)
    out.cos().sum().backward()
    return first, e.grad, seen, e.is_leaf, e.requires_grad


def backward_into_the_scores(s):
    e = s.scores(s.el, s.er)
    e.exp().sum().backward(inputs=[e])
    return e.grad


def used_twice(s):
    e = s.scores(s.el, s.er)
    a = s.weights(e)
    out = s.attend(s.ft, a) + s.attend(s.ft.sin(), a)
    loss = (out.cos() * e.sum()).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return [x.grad for x in s.leaves]


def second_derivatives(s):
    first = torch.autograd.grad(s.layer(s.ft, s.el, s.er).cos().sum(), s.leaves, create_graph=True)
    return first, torch.autograd.grad(sum(x.square().sum() for x in first), s.leaves)


def made_without_gradients(s):
    with torch.no_grad():
        e = s.scores(s.el, s.er)
    return e.requires_grad, (e * 1).requires_grad, s.gradients(s.attend(s.ft, s.weights(e)))


def continued_without_gradients(s):
    e = s.scores(s.el, s.er)
    with torch.no_grad():
        a = s.weights(e)
    return a.requires_grad, s.gradients(s.attend(s.ft, a)), s.gradients(e.exp())


def read_without_gradients(s):
    e = s.scores(s.el, s.er)
    with torch.no_grad():
        shown = e + 1
    return shown, shown.requires_grad, s.gradients(e.exp())


def in_inference_mode(s):
    with torch.inference_mode():
        out = s.layer(s.ft, s.el, s.er)
    return out, out.is_inference()


def read_twice_in_inference_mode(s):
    with torch.inference_mode():
        e = s.scores(s.el, s.er)
        a = s.weights(e)
        return e + 1, e + 2, a * 1, e.add_(1) is e, e + a


def read_in_inference_mode(s):
    e = s.scores(s.el, s.er)
    with torch.inference_mode():
        e + 1
    return e.is_inference(), s.gradients(e.exp())


def under_autocast(s):
    e = s.scores(s.el, s.er)
    with torch.autocast("cpu", torch.bfloat16):
        return e + 0, s.gradients(s.attend(s.ft, s.weights(s.scores(s.el, s.er))))


def read_in_a_functional_transform(s):
    e = s.scores(s.el, s.er)
    return torch.func.grad(lambda x: (e.detach() * x).sum())(torch.ones((), dtype=torch.float64)), s.gradients(e)


def read_with_dual_numbers(s):
    e = s.scores(s.el.detach(), s.er.detach())
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(torch.ones_like(s.el[:1]), torch.ones_like(s.el[:1]))
        return torch.autograd.forward_ad.unpack_dual(e * x).tangent


def read_under_a_dispatch_mode(s):
    e = s.scores(s.el, s.er)
    with FlopCounterMode(display=False) as counter:
        e + 1
    return counter.get_total_flops(), s.gradients(e)


def deep_copies(s):
    e = s.scores(s.el.detach(), s.er.detach())
    return copy.deepcopy(e), copy.copy(e)


def saved_to_a_file(s):
    file = io.BytesIO()
    torch.save({"e": s.scores(s.el, s.er)}, file)
    file.seek(0)
    return torch.load(file)["e"].detach()


def printed(s):
    e = s.scores(s.el.detach(), s.er.detach())
    return repr(e), str(s.weights(e)), f"{s.scores(s.el.detach(), s.er.detach()).sum():.3f}"


def as_arrays(s):
    e = s.scores(s.el.detach(), s.er.detach())
    array = e.numpy()
    array += 1  # the same memory
    other = s.scores(s.el.detach(), s.er.detach())
    return torch.from_numpy(array), e, torch.from_numpy(np.asarray(other) + 0), torch.from_dlpack(s.weights(other))


def changed_past_autograd(s):
    e = s.scores(s.el, s.er)
    e.data.mul_(2)
    e.detach().add_(1)
    return e.detach(), s.gradients(s.attend(s.ft, s.weights(e)))


def changed_in_place(s):
    e = s.scores(s.el, s.er)
    a = s.weights(e)
    same = e.mul_(2) is e
    e.view(-1)[0] = 0
    return same, a.detach(), s.gradients(s.attend(s.ft, s.weights(e)) + s.attend(s.ft, a))


def made_a_leaf(s):
    e = s.scores(s.el.detach(), s.er.detach())
    e.requires_grad_()
    s.attend(s.ft, s.weights(e)).cos().sum().backward()
    return e.is_leaf, e.requires_grad, e.grad


class Squared(torch.autograd.Function):
    """A user's own function, which keeps what it was given."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]


class DoubledInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def in_a_users_function(s):
    e = s.scores(s.el, s.er)
    return s.gradients(Squared.apply(e) * e.exp())


def in_a_users_function_after_a_change(s):
    e = s.scores(s.el, s.er)
    e.view(-1).mul_(2)
    return s.gradients(Squared.apply(e))


def changed_by_a_users_function(s):
    e = s.scores(s.el, s.er)
    y = DoubledInPlace.apply(e)
    return y.detach(), e.detach(), s.gradients(Squared.apply(e) * y.sin())


def past_torch_functions(s):
    e = s.scores(s.el, s.er)
    with torch._C.DisableTorchFunctionSubclass():
        y = torch.mul(e, 2)
    return s.gradients(y * e)


def in_a_compiled_function(s):
    e = s.scores(s.el, s.er)
    return s.gradients(torch.compile(lambda x: x.exp() * 2, backend="eager")(e))


CASES = [
    case
    for case in list(globals().values())
    if isinstance(case, types.FunctionType) and case.__code__.co_varnames[: case.__code__.co_argcount] == ("s",)
]


def alike(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, other)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for x, y in zip(one, other, strict=True):
            alike(x, y)
    else:
        assert one == other


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_waiting_is_not_noticed(case, monkeypatch):
    monkeypatch.setattr(scores, "WORTH_DEFERRING", 1)
    waiting = case(Steps())
    monkeypatch.setattr(scores, "WORTH_DEFERRING", 1 << 62)
    alike(waiting, case(Steps()))
    alike(waiting, case(PlainSteps()))


Pair = namedtuple("Pair", "a b")


class Tagged(torch.Tensor):
    """A tensor of a class of its own."""


class Listed(list):
    """A list of a class of its own."""


class Tupled(tuple):
    """A tuple of a class of its own."""


@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda e: torch.stack(Pair(e, e)),
        lambda e: torch.cat(Pair(e, 2 * e)),
        lambda e: torch.cat(Listed([e, e])),
        lambda e: torch.cat(Tupled([e, e])),
        lambda e: torch.stack(torch.return_types.max((e, e))),
        lambda e: torch.hstack(Pair(e, e)),
        lambda e: torch.einsum("abc,abc->ab", Listed([e, e])),
        lambda e: torch.broadcast_tensors(*Pair(e, e))[1],
        lambda e: torch._foreach_add(Pair(e, e), 1)[0],
        lambda e: torch.nn.utils.parameters_to_vector(Pair(e, e)),
        lambda e: torch.nn.utils.rnn.pad_sequence(Pair(e, e)),
        lambda e: torch.autograd.grad(Pair(e.sum(), e.sum()), Tupled([e]))[0],
        lambda e: checkpoint(lambda pair: pair.a * pair.b, Pair(e, e), use_reentrant=False),
        lambda e: torch.utils.data.default_collate([Pair(e.detach(), e.detach())])[0],
        lambda e: e.as_subclass(Tagged).as_subclass(torch.Tensor),
        lambda e: Tagged(e.detach()).as_subclass(torch.Tensor),
        lambda e: torch.Tensor._make_subclass(Tagged, e.detach()).as_subclass(torch.Tensor),
    ],
)
def test_deferred_tensors_in_containers_and_classes(monkeypatch, function, taken):
    results = []
    for least in (1, 1 << 62):
        monkeypatch.setattr(scores, "WORTH_DEFERRING", least)
        s = Steps()
        e = s.scores(s.el, s.er)
        assert (type(e) is torch_deferred.DeferredTensor) == (least == 1)
        if taken:
            F.leaky_relu(e, 0.2)
        results.append(function(e))
    torch.testing.assert_close(*results)


def test_a_subclass_of_deferred_scores_has_their_gradient(monkeypatch):
    monkeypatch.setattr(scores, "WORTH_DEFERRING", 1)
    s = Steps()
    tagged = s.scores(s.el, s.er).as_subclass(Tagged)
    assert type(tagged) is Tagged
    (grad,) = torch.autograd.grad(tagged.sum(), s.el)
    torch.testing.assert_close(grad.as_subclass(torch.Tensor)[:, 0, 0], s.g.out_degrees().double())


def test_other_threads_read_the_same_tensor(monkeypatch):
    monkeypatch.setattr(scores, "WORTH_DEFERRING", 1)
    for _ in range(20):
        s, results = Steps(), []
        e = s.scores(s.el, s.er)
        threads = [
            threading.Thread(target=lambda e=e, results=results: results.append((e * 2, e.data_ptr())))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({address for _, address in results}) == 1 and type(e) is torch.Tensor
        for doubled, _ in results:
            torch.testing.assert_close(doubled, 2 * e)


def test_a_read_tensor_is_an_ordinary_one_with_what_was_written_on_it(monkeypatch):
    monkeypatch.setattr(scores, "WORTH_DEFERRING", 1)
    s = Steps()
    e = s.scores(s.el, s.er)
    e.layer = "scores"
    assert type(e) is not torch.Tensor
    e.exp()
    assert type(e) is torch.Tensor and e.layer == "scores" and not hasattr(e, "deferred")


@pytest.mark.parametrize("wait", [True, False])
def test_functional_transforms_of_the_steps(monkeypatch, wait):
    """Their values are those of autograd, at every size."""
    monkeypatch.setattr(scores, "WORTH_DEFERRING", 1 if wait else 1 << 62)
    s = Steps()
    el = s.el.detach()

    def total(el):
        return s.layer(s.ft.detach(), el, s.er.detach()).sin().sum()

    torch.testing.assert_close(torch.func.grad(total)(el), torch.autograd.functional.jacobian(total, el))
    torch.testing.assert_close(
        torch.func.vmap(total)(torch.stack([el, 2 * el])), torch.stack([total(el), total(2 * el)])
    )


def steps_of(s, p, mask=None):
    """Return every step of an attention, and its result. ``mask`` is what dropout multiplies by, torch's by default."""
    torch.manual_seed(3)
    e = s.scores(s.el, s.er)
    summed = e + torch.arange(8, dtype=e.dtype)[:, None, None].expand(8, 2, 1).cos()
    sloped = F.leaky_relu(summed, 0.2)
    a = s.weights(sloped)
    dropped = F.dropout(a, p) if mask is None else a * mask
    return {"e": e, "summed": summed, "sloped": sloped, "a": a, **({"dropped": dropped} if p else {})}, s.attend(
        s.ft, dropped
    )


def retain_grad_late(s, steps, out):
    for x in steps.values():
        x.retain_grad()
    out.cos().sum().backward(retain_graph=True)
    out.sum().backward()  # adds up
    return [x.grad for x in steps.values()]


def hooks_late(s, steps, out):
    seen = []
    handles = []
    for x in steps.values():
        handles.append(x.register_hook(lambda grad: seen.append(grad.clone())))
        x.register_hook(lambda grad: 2 * grad)
    out.cos().sum().backward(retain_graph=True)
    for handle in handles:
        handle.remove()
    out.sum().backward()
    return seen


def hooks_and_retain_grad_late(s, steps, out):
    steps["e"].retain_grad()
    steps["e"].register_hook(torch.cos)
    out.cos().sum().backward(retain_graph=True)
    steps["e"].sin().sum().backward()
    return [steps["e"].grad]


def grad_late(s, steps, out):
    grads = torch.autograd.grad(out.cos().sum(), [s.ft, *steps.values(), s.el], retain_graph=True)
    (alone,) = torch.autograd.grad([out], steps["e"], torch.ones_like(out), retain_graph=True)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        torch.autograd.grad(s.ft.sum(), [steps["e"], s.ft])
    unused, _ = torch.autograd.grad(s.ft.sum(), [steps["e"], s.ft], allow_unused=True)
    zeros, _ = torch.autograd.grad(s.ft.sum(), [steps["a"], s.ft], materialize_grads=True)
    assert unused is None and not zeros.any() and zeros.shape == steps["a"].shape
    return [*grads, alone]


def second_derivatives_late(s, steps, out):
    inner = torch.autograd.grad(out.cos().sum(), list(steps.values()), create_graph=True)
    return torch.autograd.grad(sum((x * x).sum() for x in inner), [s.ft, s.el])


def late_and_read(s, steps, out):
    """The weights are read, too, before and after somebody asks."""
    before = steps["a"].sum(0)
    steps["e"].retain_grad()
    after = steps["a"].cos().sum(0)
    more = s.attend(s.ft, steps["a"])
    (out.sum() + (before * torch.arange(2)[:, None]).sum() + after.sum() + more.sin().sum()).backward()
    return [steps["e"].grad]


@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize(
    "ask",
    [retain_grad_late, hooks_late, hooks_and_retain_grad_late, grad_late, second_derivatives_late, late_and_read],
)
def test_gradients_of_steps_may_be_asked_for_after_the_next(monkeypatch, ask, p):
    monkeypatch.setattr(scores, "WORTH_DEFERRING", 1)
    s = Steps()
    waited = ask(s, *steps_of(s, p)), [x.grad for x in s.leaves]
    read, _ = steps_of(Steps(), p)
    mask = (read["dropped"] / read["a"]).detach() if p else None

    monkeypatch.setattr(scores, "WORTH_DEFERRING", 1 << 62)
    s = Steps()
    at_once = ask(s, *steps_of(s, p, mask)), [x.grad for x in s.leaves]
    for one, other in zip(waited, at_once, strict=True):
        torch.testing.assert_close(list(one), list(other))


def test_nothing_waits_where_hooks_for_saved_tensors_cannot_be_seen(monkeypatch):
    monkeypatch.setattr(scores, "WORTH_DEFERRING", 1)
    monkeypatch.setattr(torch_deferred, "_hooks", None)
    s = Steps()
    assert type(s.scores(s.el, s.er)) is torch.Tensor
