"""Continual: states, failures, growth, optimizers that change, averages by definition, what loops do besides."""

import copy
import gc
import io
import math

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim.optimizer import _global_optimizer_post_hooks as hooks

import forgetless.torch as flt
from support.deep.networks import DEVICES, OPTIMIZERS, batches, begin, learn, mlp, shown, train, weights
from support.deep.processes import two_processes


def all_mechanisms(importance=flt.fisher):
    return [flt.Average(3), flt.Proximal(0.5, importance), flt.StepSize(flt.inverse(1.5)), flt.Merge(1.2)]


# ------------------------------------------------------------------------------------------------------ equations


@pytest.mark.parametrize("n_steps", [4.0, 1e9])
def test_moving_averages_by_definition(n_steps):
    net, optimizer, continual = begin(flt.Average(n_steps), name="momentum")
    assert torch.equal(shown(net, continual), weights(net))
    average, plain = 0.0, []
    for n, batch in enumerate(batches(9), 1):
        train(net, optimizer, [batch])
        plain.append(weights(net))
        average = average + max(1 / n, 1 - math.exp(-1 / n_steps)) * (plain[-1] - average)
        if n == 5:
            continual.next_task()  # tasks have no meaning for it
    torch.testing.assert_close(shown(net, continual), average, rtol=1e-5, atol=1e-6)
    if n_steps > 9:
        torch.testing.assert_close(average, torch.stack(plain).mean(0), rtol=1e-5, atol=1e-6)
    assert torch.equal(weights(net), plain[-1])


@pytest.mark.parametrize("pretrained", [False, True])
@pytest.mark.parametrize("c", [0.5, 1.0, 3.0])
def test_merging_by_definition(c, pretrained):
    """With c = 1 the merged weights are the mean of what tasks were trained to."""
    net, optimizer, continual = begin(flt.Merge(c), name="sgd", pretrained=pretrained)
    merged, ends = weights(net), [weights(net)] if pretrained else []
    for t in range(1, 5):
        train(net, optimizer, batches(3, seed=t))
        share = 1.0 if t == 1 and not pretrained else min(1.0, c / (t + pretrained))
        merged = merged + share * (weights(net) - merged)
        ends.append(weights(net))
        torch.testing.assert_close(shown(net, continual), merged, rtol=1e-5, atol=1e-6)  # as if the task ended
        continual.next_task()
        torch.testing.assert_close(weights(net), merged, rtol=1e-5, atol=1e-6)
    if c == 1.0:
        torch.testing.assert_close(merged, torch.stack(ends).mean(0), rtol=1e-4, atol=1e-5)


def test_all_at_once_by_definition():
    """The proximal step has the learning rate of the step, and its center is the merged weights."""
    net, optimizer, continual = begin(flt.Proximal(2.0), flt.Merge(1), flt.StepSize([1, 0.5]), name="sgd")
    learn(net, optimizer, continual, [0])
    center, twin, (x, y) = weights(net), copy.deepcopy(net), batches(1, seed=1)[0]
    gradients = torch.autograd.grad(functional.cross_entropy(twin(x), y), list(twin.parameters()))
    stepped = center - 0.05 * torch.cat([g.ravel() for g in gradients])
    train(net, optimizer, [(x, y)])
    load = 0.05 * 2.0
    stepped = stepped + load / (1 + load) * (center - stepped)
    torch.testing.assert_close(weights(net), stepped, rtol=1e-5, atol=1e-6)
    continual.next_task()
    torch.testing.assert_close(weights(net), center + 0.5 * (stepped - center), rtol=1e-5, atol=1e-6)
    held = torch.cat([each.ravel() for each in continual.mechanisms[-1].center.values()])
    assert torch.equal(held, weights(net))


@pytest.mark.parametrize("name", ["adam", "sgd fused"])
def test_synaptic_intelligence_by_definition(name):
    """Σ −g·Δw of the optimizer's own steps, without the proximal ones."""
    proximal = flt.Proximal(50.0, flt.si(0.2), relative=False)
    net, optimizer, continual = begin(proximal, name=name)
    learn(net, optimizer, continual, [0])
    first = {n: value.clone() for n, value in proximal.omega.items()}
    twin, start = copy.deepcopy(net), copy.deepcopy(net)
    total = {n: torch.zeros_like(p) for n, p in net.named_parameters()}
    for batch in batches(4, seed=5):
        twin.load_state_dict(net.state_dict())
        other = OPTIMIZERS[name](twin.parameters())
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        train(twin, other, [batch])
        for (n, p), old in zip(twin.named_parameters(), net.parameters(), strict=True):
            total[n] -= p.grad * (p - old).detach()
        train(net, optimizer, [batch])
    continual.next_task()
    for (n, p), before in zip(net.named_parameters(), start.parameters(), strict=True):
        wanted = total[n].clamp(min=0) / ((p - before).detach() ** 2 + 0.2)
        torch.testing.assert_close(proximal.omega[n], (first[n] + wanted) / 2, rtol=1e-4, atol=1e-7)
        assert float(wanted.max()) > 0


def test_past_the_planned_tasks_nothing_moves():
    net, optimizer, continual = begin(flt.Proximal([1.0, 1.0]), flt.StepSize(flt.cosine(2)), name="sgd")
    learn(net, optimizer, continual, [0, 1])
    before = weights(net)
    with pytest.raises(ValueError, match="task 3 is beyond the 2 tasks of the schedule; plan more"):
        train(net, optimizer, batches(1))
    assert torch.equal(weights(net), before)
    assert optimizer.param_groups[0]["lr"] == 0.1


# --------------------------------------------------------------------------------------------------------- states


@pytest.mark.parametrize("importance", [None, flt.fisher, flt.mas, flt.si])
def test_resumed_runs_are_equal_bit_for_bit_also_within_a_task(importance):
    parts = begin(*all_mechanisms(importance))
    learn(*parts, (0, 1))
    train(*parts[:2], batches(2, seed=7))
    torch.save([each.state_dict() for each in parts], file := io.BytesIO())
    learn(*parts, (2, 3))
    resumed = begin(*all_mechanisms(importance), seed=9)
    for own, state in zip(resumed, torch.load(io.BytesIO(file.getvalue()), weights_only=True), strict=True):
        own.load_state_dict(state)
    learn(*resumed, (2, 3))
    assert torch.equal(weights(resumed[0]), weights(parts[0]))
    assert torch.equal(shown(resumed[0], resumed[2]), shown(parts[0], parts[2]))
    assert resumed[2].task == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("task"), "state must be that of a Continual, got keys"),
        (lambda state: state.update(task=0), r"state\['task'\] must be at least 1, got 0"),
        (lambda state: state.update(n_steps=2.5), r"state\['n_steps'\] must be an integer"),
        (lambda state: state["mechanisms"].pop(), r"state\['mechanisms'\] are .*make it with the mechanisms"),
        (lambda state: state["mechanisms"][2].pop("unit"), r"state\['mechanisms'\] are"),
        (
            lambda state: state["mechanisms"][2]["center"].update({"0.bias": torch.zeros(2)}),
            r"state of Proximal, center\['0.bias'\] must have shape \(8,\), got \(2,\)",
        ),
        (lambda state: state["mechanisms"][3]["mean"].update(other=torch.zeros(2)), r"mean\['other'\] is of no param"),
        (lambda state: state["mechanisms"][2]["omega"]["0.bias"].fill_(math.nan), r"omega\['0.bias'\] must be finite"),
    ],
)
def test_damaged_states_are_refused_and_change_nothing(change, message):
    net, optimizer, continual = begin(*all_mechanisms())
    learn(net, optimizer, continual, [0])
    state = continual.state_dict()
    change(state)
    before = copy.deepcopy(continual.state_dict())
    with pytest.raises((TypeError, ValueError), match=message):
        continual.load_state_dict(state)
    after = continual.state_dict()
    assert str(after) == str(before)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failed_next_task_is_undone(error):
    """The weights are not merged, and training goes on as if nothing had been called."""

    def importance(model, data):
        if data is broken:
            raise error("no")
        return flt.fisher(model, data)

    broken, results = object(), []
    for attempts in (0, 1):
        net, optimizer, continual = begin(*all_mechanisms(importance))
        learn(net, optimizer, continual, [0])
        train(net, optimizer, batches(2, seed=1))
        for _ in range(attempts):
            before = weights(net), continual.task, copy.deepcopy(continual.state_dict())
            with pytest.raises(error):
                continual.next_task(broken)
            assert torch.equal(weights(net), before[0])
            assert continual.task == before[1]
            assert str(continual.state_dict()) == str(before[2])
        learn(net, optimizer, continual, [2, 3])
        results.append(shown(net, continual))
    assert torch.equal(*results)


def test_a_step_that_fails_leaves_the_learning_rate():
    net, optimizer, _continual = begin(flt.StepSize([0.5]), name="momentum")
    handle = optimizer.register_step_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(net, optimizer, batches(1))
    handle.remove()
    train(net, optimizer, batches(1))
    assert optimizer.param_groups[0]["lr"] == 0.1


# ------------------------------------------------------------------------------------------------------ optimizers


def test_a_new_optimizer_is_followed_and_another_model_is_noticed():
    net, optimizer, continual = begin(flt.Proximal(1e12))
    learn(net, optimizer, continual, [0])
    before = weights(net)
    learn(net, OPTIMIZERS["sgd"](net.parameters()), continual, [1])  # not the optimizer of the first task
    assert torch.allclose(weights(net), before, atol=1e-6)
    other = mlp(1)
    train(other, OPTIMIZERS["sgd"](other.parameters()), batches(1))
    with pytest.raises(RuntimeError, match=r"no optimizer has stepped this model in task 3.*FSDP"):
        continual.next_task()
    with pytest.raises(ValueError, match="model has a Continual already"):
        flt.Continual(net, [flt.Average(9)])
    n_hooks = len(hooks)
    del continual
    assert gc.collect() >= 0
    assert len(hooks) == n_hooks - 1


def test_an_optimizer_that_is_named_is_followed_alone():
    net = mlp()
    first, second = (OPTIMIZERS["sgd"](part.parameters()) for part in (net[0], net[2]))
    continual = flt.Continual(net, [flt.Average(9)], optimizer=first)
    for x, y in batches(3):
        functional.cross_entropy(net(x), y).backward()
        first.step()
        second.step()
    assert continual.n_steps == 3


def test_frozen_layers_groups_and_accumulated_gradients():
    """As with adapters: what is frozen stays, and is free once it is thawed."""
    net = mlp()
    net[0].requires_grad_(False)
    groups = [{"params": [net[2].weight], "lr": 0.05}, {"params": [net[2].bias], "lr": 0.01}]
    optimizer = torch.optim.AdamW(groups)
    mechanisms = [flt.Proximal(1e12, flt.fisher), flt.StepSize(flt.inverse(1.5)), flt.Average(3)]
    continual = flt.Continual(net, mechanisms, pretrained=batches(1))
    frozen, held = net[0].weight.clone(), net[2].weight.detach().clone()
    for task in range(3):
        for pair in (batches(4, seed=task)[:2], batches(4, seed=task)[2:]):
            optimizer.zero_grad()
            for x, y in pair:
                (functional.cross_entropy(net(x), y) / 2).backward()
            optimizer.step()
        continual.next_task(batches(2, seed=task))
    assert set(continual.params) == {"2.weight", "2.bias"}
    assert torch.equal(net[0].weight, frozen)
    assert torch.allclose(net[2].weight, held, atol=1e-5)
    assert [group["lr"] for group in optimizer.param_groups] == [0.05, 0.01]
    net[0].requires_grad_(True)
    optimizer.add_param_group({"params": net[0].parameters(), "lr": 0.02})
    optimizer.zero_grad()
    net[2](torch.ones(1, 8)).sum().backward()
    optimizer.step()  # the first layer has no gradient yet, and nothing in the optimizer
    learn(net, optimizer, continual, [4])
    assert not torch.allclose(net[0].weight, frozen, atol=1e-3)
    assert torch.allclose(net[2].weight, held, atol=1e-5)


@pytest.mark.parametrize("importance", [None, flt.fisher, flt.si])
def test_heads_that_grow(importance):
    """Old entries are held, new ones are free until their task ends; new layers, too."""
    net, optimizer, continual = begin(flt.Proximal(1e9, importance), flt.Average(2), flt.Merge(9), name="sgd")
    learn(net, optimizer, continual, [0])
    before, old = copy.deepcopy(net), net[2]
    net[2] = nn.Linear(8, 5)
    with torch.no_grad():
        net[2].weight[:3], net[2].bias[:3] = old.weight, old.bias
    net.append(nn.Linear(5, 5))
    with continual.evaluation():  # the average of the old entries, also before a step
        assert not torch.equal(net[2].weight[:3], old.weight)
    continual.load_state_dict(continual.state_dict())
    optimizer = OPTIMIZERS["sgd"](net.parameters())
    new, added = net[2].weight[3:].detach().clone(), net[3].weight.detach().clone()
    train(net, optimizer, batches(5, classes=5, seed=1))
    for n, p in before.named_parameters() if importance is None else ():
        assert torch.allclose(net.get_parameter(n)[: len(p)], p, atol=1e-5), n
    assert not torch.allclose(net[2].weight[3:], new, atol=1e-4)
    assert not torch.allclose(net[3].weight, added, atol=1e-4)
    continual.next_task(batches(1, classes=5))
    omega, held = continual.mechanisms[-2].omega, weights(net)
    assert torch.equal(shown(net, continual) == 0, held == 0)
    if importance is None:
        assert torch.equal(omega["2.weight"], torch.tensor([1, 1, 1, 0.5, 0.5])[:, None].expand(5, 8))
        assert torch.equal(omega["3.weight"], torch.tensor(0.5))
        train(net, optimizer, batches(5, classes=5, seed=3))
        assert torch.allclose(weights(net), held, atol=1e-5)
    net[2] = nn.Linear(8, 2)
    with pytest.raises(ValueError, match=r"'2.(weight|bias)' had shape .* may grow .*not shrink"):
        train(net[:3], OPTIMIZERS["sgd"](net.parameters()), batches(1, classes=2))


# ---------------------------------------------------------------------------------------------- what loops do besides


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["momentum", "sgd fused", "adam", "adam fused", "adamw fused"])
def test_a_step_skipped_by_a_scaler_does_nothing(name, device):
    """A moving average counts such a step of a fused optimizer on a GPU, where nobody waits to learn of it."""
    averages = [] if device == "cuda" and "fused" in name else [flt.Average(2)]
    net, optimizer, continual = begin(flt.Proximal(5.0, flt.si), *averages, name=name, device=device)
    learn(net, optimizer, continual, [0])
    if name != "sgd fused":  # after a first step that is skipped its momentum is whatever was in memory
        optimizer = OPTIMIZERS[name](net.parameters())
    else:
        train(net, optimizer, batches(2, seed=1))
    before, scaler = (weights(net), shown(net, continual)), torch.amp.GradScaler(device)
    for factor, moves in ((math.inf, False), (1.0, True)):
        x, y = (part.to(device) for part in batches(1, seed=2)[0])
        optimizer.zero_grad()
        scaler.scale(functional.cross_entropy(net(x), y) * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        for now, old in zip((weights(net), shown(net, continual)), before, strict=True):
            assert torch.equal(now, old) is not moves
    continual.next_task()


def plain(net, optimizer):
    return lambda x, y: train(net, optimizer, [(x, y)])


def scaled_and_compiled(net, optimizer):
    """Scales are powers of two, so that scaled gradients are the same."""
    model, scaler = torch.compile(net, backend="aot_eager"), torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step(x, y):
        optimizer.zero_grad()
        scaler.scale(functional.cross_entropy(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def compiled_step(net, optimizer):
    """The λ of a task is no constant of the trace."""
    compiled = torch.compile(lambda: optimizer.step(), backend="eager")
    return lambda x, y: train(net, optimizer, [(x, y)], step=compiled)


def closure(net, optimizer):
    """As Lightning steps: gradients are computed within the step."""

    def loss(x, y):
        optimizer.zero_grad()
        functional.cross_entropy(net(x), y).backward()

    return lambda x, y: optimizer.step(lambda: loss(x, y))


@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("name", ["adam", "adam fused", "adam, lr a tensor"])
@pytest.mark.parametrize("way", [scaled_and_compiled, compiled_step, closure])
def test_ways_to_step_change_nothing(way, name):
    results = []
    for make in (plain, way):
        torch._dynamo.reset()
        net, optimizer, continual = begin(*all_mechanisms(flt.si), name=name)
        step = make(net, optimizer)
        for task in range(3):
            for x, y in batches(3, seed=task):
                step(x, y)
            continual.next_task()
        results.append(torch.stack([weights(net), shown(net, continual)]))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-6)


def test_two_processes_keep_the_same_weights():
    first, second = two_processes()
    assert torch.equal(first, second)
    assert bool(torch.isfinite(first).all())


def test_running_statistics_are_warned_of_once():
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    continual, optimizer = flt.Continual(net, [flt.Proximal(1.0)]), OPTIMIZERS["sgd"](net.parameters())
    train(net, optimizer, batches(1))
    with pytest.warns(UserWarning, match=r"first of '1', follow the data") as caught:
        continual.next_task()
    assert caught[0].filename == __file__
    learn(net, optimizer, continual, [1])  # warnings are errors here
    net[1].eval()
    continual.remove()
    continual = flt.Continual(net, [flt.Proximal(1.0)])
    learn(net, optimizer, continual, [0])
