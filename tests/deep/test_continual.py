"""Continual: each mechanism against its definition, combinations, states, and steps that were not seen."""

import copy
import io
import math
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import forgetless.torch as flt
from support.deep.networks import OPTIMIZERS, batches, mlp, train, weights
from support.deep.processes import two_processes


def begin(name="momentum", **options):
    net = mlp()
    optimizer = OPTIMIZERS[name](net.parameters())
    return net, optimizer, flt.Continual(net, optimizer, **options)


def learn(net, optimizer, continual, tasks, n=3):
    for task in tasks:
        train(net, optimizer, batches(n, seed=task))
        continual.next_task()


def shown(net, continual):
    with continual.averaged_weights():
        return weights(net)


# ---------------------------------------------------------------------------------------------------- mechanisms


def test_a_number_is_the_sum_of_online_ewc():
    """c times the number of earlier tasks, with and without a pretrained network; no number of tasks is needed."""
    for start, expected in ((False, [0.0, 0.5, 1.0, 1.5]), (True, [0.5, 1.0, 1.5, 2.0])):
        net, optimizer, continual = begin(proximal=0.5, start=start)
        strengths = []
        for task in range(4):
            strengths.append(continual.anchor.strength)
            learn(net, optimizer, continual, [task])
        assert strengths == pytest.approx(expected)


@pytest.mark.parametrize("name", ["momentum", "adam", "adam fused"])
def test_the_proximal_term_is_that_of_an_anchor(name):
    net, optimizer, continual = begin(name, proximal=[1.0, 2.0, 3.0], n_tasks=3)
    twin = mlp()
    other = OPTIMIZERS[name](twin.parameters())
    anchor = flt.Anchor(twin, other, [1.0, 2.0, 3.0], 3)
    for task in range(3):
        for model, opt in ((net, optimizer), (twin, other)):
            train(model, opt, batches(3, seed=task))
        importance = {n: p.detach().abs() for n, p in net.named_parameters()}
        continual.next_task(importance)
        anchor.next_task(importance)
    assert torch.equal(weights(net), weights(twin))


@pytest.mark.parametrize(
    ("step_size", "factors"),
    [
        ("linear", [4 / 4, 3 / 4, 2 / 4]),
        ("minimax", [3 / 4, 2 / 4, 1 / 4]),
        ("cosine", [0.5 * (1 + math.cos(math.pi * t / 3)) for t in range(3)]),
        ("inverse", [1.0, 1 / 2, 1 / 3]),
        (("inverse", 2.5), [1.0, 1.0, 2.5 / 3]),
        (["inverse", 0.5], [1.0, 1 / 4, 1 / 6]),  # as JSON has it
        ([1.0, 0.5, 0.2], [1.0, 0.5, 0.2]),
        (lambda t: 0.9**t, [0.9, 0.81, 0.729]),
    ],
)
@pytest.mark.parametrize("name", ["momentum", "adam, lr a tensor"])
def test_step_sizes_are_those_of_another_learning_rate(name, step_size, factors):
    """Beside a scheduler within tasks, which neither sees nor disturbs the factor."""
    net, optimizer, continual = begin(name, step_size=step_size, n_tasks=None if "inverse" in str(step_size) else 3)
    twin = mlp()
    other = OPTIMIZERS[name](twin.parameters())
    base = float(other.param_groups[0]["lr"])
    for task, factor in enumerate(factors):
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for i, batch in enumerate(batches(3, seed=task)):
            train(net, optimizer, [batch])
            scheduler.step()
            rate = base * factor * 0.5**i
            other.param_groups[0]["lr"] = torch.tensor(rate) if "tensor" in name else rate
            train(twin, other, [batch])
        optimizer.param_groups[0]["lr"] = torch.tensor(base) if "tensor" in name else base
        continual.next_task()
    torch.testing.assert_close(weights(net), weights(twin), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("average", ["moving", "mean", ("merge", 1.5)])
def test_a_task_that_could_not_be_closed_can_be_closed_again(average):
    """An importance that fails, or is not one, changes neither weights nor averages."""
    (net, optimizer, continual), (twin, other, whole) = (begin(proximal=0.5, average=average) for _ in range(2))
    for task in range(3):
        train(net, optimizer, batches(2, seed=task))
        train(twin, other, batches(2, seed=task))
        with pytest.raises(ZeroDivisionError):
            continual.next_task(lambda: 1 / 0)
        with pytest.raises(ValueError, match="importance lacks"):
            continual.next_task({})
        assert continual.task == task + 1
        for own, model in ((continual, net), (whole, twin)):
            own.next_task({name: torch.ones_like(p) for name, p in model.named_parameters()})
    assert torch.equal(weights(net), weights(twin))
    with continual.averaged_weights(), whole.averaged_weights():
        assert torch.equal(weights(net), weights(twin))


def test_a_pretrained_network_has_learned_a_task_before_the_first():
    net, optimizer, continual = begin(step_size=("inverse", 1.5), start=True)
    fractions = []
    for task in range(3):
        fractions.append(continual.fraction)
        train(net, optimizer, batches(1, seed=task))
        continual.next_task()
    assert fractions == [1.5 / 2, 1.5 / 3, 1.5 / 4]


def test_a_step_that_fails_leaves_the_learning_rate():
    net, optimizer, _ = begin(step_size="minimax", n_tasks=3)
    handle = optimizer.register_step_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(net, optimizer, batches(1))
    handle.remove()
    train(net, optimizer, batches(1))
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_moving_averages_by_definition():
    for scale in (None, 4.0):
        net, optimizer, continual = begin(average="moving" if scale is None else ("moving", scale))
        assert torch.equal(shown(net, continual), weights(net))
        average, plain = None, []
        for n, batch in enumerate(batches(9), 1):
            train(net, optimizer, [batch])
            plain.append(weights(net))
            rate = max(1 / n, 0.0 if scale is None else 1 - math.exp(-1 / scale))
            average = plain[-1].clone() if average is None else average + rate * (plain[-1] - average)
            if n == 5:
                continual.next_task()  # tasks have no meaning for it
        torch.testing.assert_close(shown(net, continual), average, rtol=1e-5, atol=1e-6)
        if scale is None:
            torch.testing.assert_close(average, torch.stack(plain).mean(0), rtol=1e-5, atol=1e-6)
        assert torch.equal(weights(net), plain[-1])


@pytest.mark.parametrize("start", [False, True])
def test_the_mean_of_task_ends(start):
    net, optimizer, continual = begin(average="mean", start=start)
    ends = [weights(net)] if start else []
    for task in range(3):
        train(net, optimizer, batches(3, seed=task))
        ends.append(weights(net))
        before = shown(net, continual)  # as if the task ended now
        continual.next_task()
        torch.testing.assert_close(before, torch.stack(ends).mean(0), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(shown(net, continual), before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("c", [0.5, 1.0, 3.0])
def test_merging_by_definition(c, start):
    """Twins are trained from the merged weights: with c = 1 these are the mean of what tasks were trained to."""
    net, optimizer, continual = begin("sgd", average=("merge", c), start=start)
    merged, ends = weights(net), [weights(net)] if start else []
    for t in range(1, 5):
        train(net, optimizer, batches(3, seed=t))
        share = min(1.0, c / (t + start))
        merged = merged + (1.0 if t == 1 and not start else share) * (weights(net) - merged)
        ends.append(weights(net))
        torch.testing.assert_close(shown(net, continual), merged, rtol=1e-5, atol=1e-6)
        continual.next_task()
        torch.testing.assert_close(weights(net), merged, rtol=1e-5, atol=1e-6)
        assert torch.equal(shown(net, continual), weights(net))
    if c == 1.0:
        torch.testing.assert_close(merged, torch.stack(ends).mean(0), rtol=1e-4, atol=1e-5)


def test_all_three_at_once():
    """The proximal step uses the learning rate of the step, and its center is the merged weights."""
    net, optimizer, continual = begin("sgd", proximal=[0.0, 2.0], step_size=[1.0, 0.5], average="merge", n_tasks=2)
    learn(net, optimizer, continual, [0])
    center = weights(net)
    twin, (x, y) = copy.deepcopy(net), batches(1, seed=1)[0]
    gradients = torch.autograd.grad(functional.cross_entropy(twin(x), y), list(twin.parameters()))
    stepped = center - 0.05 * torch.cat([g.ravel() for g in gradients])
    train(net, optimizer, [(x, y)])
    load = 0.05 * 2.0
    stepped = stepped + load / (1 + load) * (center - stepped)
    torch.testing.assert_close(weights(net), stepped, rtol=1e-5, atol=1e-6)
    continual.next_task()
    torch.testing.assert_close(weights(net), center + 0.5 * (stepped - center), rtol=1e-5, atol=1e-6)
    held = torch.cat([center.ravel() for center in continual.anchor.state_dict()["center"].values()])
    assert torch.equal(held, weights(net))


# ----------------------------------------------------------------------------------------------------- in practice


def test_a_new_optimizer_is_noticed():
    """What trainers do: an optimizer for every task, which nobody tells the object of."""
    net, optimizer, continual = begin(proximal=100.0, average="moving")
    learn(net, optimizer, continual, [0])
    fresh = OPTIMIZERS["momentum"](net.parameters())
    train(net, fresh, batches(3))
    with pytest.raises(RuntimeError, match=r"task 2 ends without a step .*continual.grow\(optimizer=optimizer\)"):
        continual.next_task()
    continual.grow(optimizer=fresh)
    before = weights(net)
    learn(net, fresh, continual, [1])
    assert float((weights(net) - before).norm()) < 0.2
    continual.next_task(untrained=True)
    anchor = flt.Anchor(net, OPTIMIZERS["sgd"](net.parameters()), 1.0)
    with pytest.raises(RuntimeError, match="task 1 ends without a step"):
        anchor.next_task()
    assert anchor.task == 1


def test_two_on_one_optimizer_raise():
    net, optimizer, continual = begin(average="mean")
    for create in (
        lambda: flt.Continual(net, optimizer, average="mean"),
        lambda: flt.Anchor(net, optimizer, 1.0),
    ):
        with pytest.raises(ValueError, match="optimizer has an Anchor or Continual already"):
            create()
    continual.remove()
    anchor = flt.Anchor(net, optimizer, 1.0)
    with pytest.raises(ValueError, match="already"):
        flt.Continual(net, optimizer, step_size="inverse")
    anchor.remove()
    flt.PathIntegral(net, optimizer)
    flt.Anchor(net, optimizer, 1.0)


MECHANISMS = {
    "proximal": {"proximal": 0.5},
    "step_size": {"step_size": "inverse"},
    "moving": {"average": ("moving", 5)},
    "mean": {"average": "mean"},
    "merge": {"average": ("merge", 0.7)},
    "all": {"proximal": 0.5, "step_size": lambda t: 0.8**t, "average": "moving", "start": True},
}


@pytest.mark.parametrize("options", MECHANISMS.values(), ids=MECHANISMS.keys())
def test_a_resumed_run_is_the_same_bit_for_bit(options):
    """Saved within a task, and for tasks beyond those that were planned: there is no plan."""
    whole = begin("adam", **options)
    learn(*whole, range(2))
    train(*whole[:2], batches(2, seed=7))
    file = io.BytesIO()
    torch.save({"net": whole[0].state_dict(), "opt": whole[1].state_dict(), "own": whole[2].state_dict()}, file)
    resumed = begin("adam", **options)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    for part, key in zip(resumed, ("net", "opt", "own"), strict=True):
        part.load_state_dict(saved[key])
    for run in (whole, resumed):
        learn(*run, range(3, 7))
    assert torch.equal(weights(whole[0]), weights(resumed[0]))
    assert torch.equal(shown(whole[0], whole[2]), shown(resumed[0], resumed[2]))
    assert resumed[2].task == 7


def test_other_states_are_rejected():
    net, optimizer, continual = begin(proximal=0.5, average="mean")
    learn(net, optimizer, continual, [0])
    state = continual.state_dict()
    for changed, message in [
        ({"version": 7}, "not that of a Continual of this version"),
        ({"task": 0}, r"state\['task'\] must be at least 1"),
        ({"n_steps": -1}, r"state\['n_steps'\] must be at least 0"),
        ({"anchor": None}, r"state\['anchor'\] is missing"),
        ({"fractions": [1.0, 0.5]}, "another step_size"),
        ({"anchor": state["anchor"] | {"names": []}}, r"state\['names'\] must name the parameters"),
        ({"average": state["average"] | {"kind": "merge"}}, r"the saved average is \('merge', None\)"),
        ({"average": state["average"] | {"tensors": {}}}, "lacks '0.weight'"),
        (
            {"average": state["average"] | {"tensors": state["average"]["tensors"] | {"0.bias": torch.ones(2)}}},
            r"must have shape \(8,\), got \(2,\)",
        ),
    ]:
        other = begin(proximal=0.5, average="mean")[2]
        with pytest.raises(ValueError, match=message):
            other.load_state_dict(state | changed)
        assert (other.task, other.anchor.task, other.state_dict()["average"]["count"]) == (1, 1, 0)


def test_arguments_are_checked():
    for options, error, message in [
        ({}, ValueError, "needs a mechanism"),
        ({"step_size": "cosine"}, ValueError, "needs n_tasks"),
        ({"step_size": "quick", "n_tasks": 3}, ValueError, "step_size must be one of 'linear'"),
        ({"step_size": ("inverse", 0)}, ValueError, "step_size must be .*positive"),
        ({"average": "max"}, ValueError, "average must be one of 'moving', 'mean', 'merge'"),
        ({"average": ("moving", -1)}, ValueError, "average must be .*positive"),
        ({"average": ("mean", 3)}, ValueError, "takes no number"),
        ({"average": "mean", "center": "all"}, TypeError, "'center' is an option of the proximal term"),
        ({"average": "mean", "beyond": "stop"}, ValueError, "beyond must be one of"),
    ]:
        with pytest.raises(error, match=message):
            begin(**options)
    net = mlp()
    optimizer = OPTIMIZERS["sgd"](net.parameters())
    with pytest.raises(ValueError, match="average must be one of"):
        flt.Continual(net, optimizer, average="max")
    flt.Continual(net, optimizer, average="mean")  # the error before left no hook behind
    assert begin(proximal=np.float32(0.5), start=True)[2].anchor.lambdas == (0.5,)
    assert begin(proximal=np.float32(0.5))[2].anchor.lambdas == (0.0,)
    net, optimizer, continual = begin(average="mean")
    train(net, optimizer, batches(1))
    with pytest.raises(ValueError, match="importance belongs to the proximal term"):
        continual.next_task({})
    net, optimizer, continual = begin(step_size="linear", n_tasks=1)
    learn(net, optimizer, continual, [0])
    before = weights(net)
    with pytest.raises(ValueError, match="task 2 is beyond the horizon of 1 tasks"):
        train(net, optimizer, batches(1))
    assert torch.equal(weights(net), before)


@pytest.mark.parametrize("options", MECHANISMS.values(), ids=MECHANISMS.keys())
def test_frozen_layers_groups_and_accumulated_gradients(options):
    net = mlp()
    net[0].requires_grad_(False)
    groups = [{"params": [net[2].weight], "lr": 0.05}, {"params": [net[2].bias], "lr": 0.01}]
    optimizer = torch.optim.AdamW(groups)
    continual = flt.Continual(net, optimizer, **options)
    frozen = net[0].weight.clone()
    for task in range(3):
        for pair in (batches(4, seed=task)[:2], batches(4, seed=task)[2:]):
            optimizer.zero_grad()
            for x, y in pair:
                (functional.cross_entropy(net(x), y) / 2).backward()
            optimizer.step()
        continual.next_task()
    with continual.averaged_weights():
        assert torch.equal(net[0].weight, frozen)
    assert [group["lr"] for group in optimizer.param_groups] == [0.05, 0.01]
    net[0].requires_grad_(True)  # thawed later, in a group of its own
    optimizer.add_param_group({"params": net[0].parameters(), "lr": 0.02})
    learn(net, optimizer, continual, [4, 5])
    assert not torch.equal(net[0].weight, frozen)
    assert bool(torch.isfinite(shown(net, continual)).all())


def test_a_growing_layer_keeps_its_average():
    net, optimizer, continual = begin("sgd", average="moving", proximal=1.0)
    learn(net, optimizer, continual, [0])
    old, before = net[2], shown(net, continual)
    net[2] = nn.Linear(8, 5)
    with torch.no_grad():
        net[2].weight[:3], net[2].bias[:3] = old.weight, old.bias
    optimizer = OPTIMIZERS["sgd"](net.parameters())
    continual.grow(optimizer=optimizer)
    with continual.averaged_weights():
        torch.testing.assert_close(net[2].weight[:3].ravel(), before[56:80])
    learn(net, optimizer, continual, [1])


def test_autocast_and_weights_of_few_bits():
    net, optimizer, continual = begin("adam", **MECHANISMS["all"])
    for task in range(2):
        for x, y in batches(3, seed=task):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
        continual.next_task()
    assert bool(torch.isfinite(shown(net, continual)).all())
    small = mlp().bfloat16()
    average = flt.Continual(small, torch.optim.SGD(small.parameters(), lr=0.1), average="moving")
    assert {tensor.dtype for tensor in average.state_dict()["average"]["tensors"].values()} == {torch.float32}


def test_a_compiled_model_and_optimizer():
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own
        for compiled in (False, True):
            torch._dynamo.reset()
            net, optimizer, continual = begin("adam, lr a tensor", **MECHANISMS["all"])
            model = torch.compile(net, backend="aot_eager") if compiled else net
            step = torch.compile(lambda o=optimizer: o.step(), backend="eager") if compiled else optimizer.step
            for task in range(3):
                for x, y in batches(3, seed=task):
                    optimizer.zero_grad()
                    functional.cross_entropy(model(x), y).backward()
                    step()
                continual.next_task()
            results.append((weights(net), shown(net, continual)))
    for plain, compiled in zip(*results, strict=True):
        torch.testing.assert_close(plain, compiled, rtol=1e-5, atol=1e-6)


def test_a_wrapped_optimizer_is_looked_through():
    class Wrapper(torch.optim.Optimizer):  # as accelerate's
        def __init__(self, optimizer):
            self.optimizer = optimizer

        def step(self, closure=None):
            self.optimizer.step(closure)

        @property
        def param_groups(self):
            return self.optimizer.param_groups

    net = mlp()
    inner = OPTIMIZERS["adam"](net.parameters())
    continual = flt.Continual(net, Wrapper(inner), proximal=1.0)
    assert continual.optimizer is inner
    assert continual.anchor.optimizer is inner


def test_two_processes_keep_the_same_weights():
    first, second = two_processes("continual_training")
    assert torch.equal(first, second)
    assert bool(torch.isfinite(first).all())
