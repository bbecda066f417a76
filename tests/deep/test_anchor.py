"""The anchor: schedules, what is pulled and what is not, states, growth."""

import copy
import io
import itertools
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import forgetless as fl
import forgetless.torch as flt
from forgetless.torch import _proximal
from forgetless.torch import anchor as anchor_module
from support.deep.networks import OPTIMIZERS, batches, mlp, train, weights


def fresh(seed=0, make=OPTIMIZERS["momentum"], schedule=1.0, n_tasks=3, **options):
    net = mlp(seed)
    optimizer = make(net.parameters())
    return net, optimizer, flt.Anchor(net, optimizer, schedule, n_tasks, **options)


def apart(a, b):
    return float((a - b).detach().abs().max())


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        (2, [2.0, 2.0, 2.0]),
        ([0.0, 1.0, 4.0], [0.0, 1.0, 4.0]),
        (np.array([1, 2, 3]), [1.0, 2.0, 3.0]),
        (lambda t: t * 0.5, [0.5, 1.0, 1.5]),
        (fl.schedules.increasing(scale=3.0), [3.0, 4.0, 6.0]),
        (fl.schedules.end_ramp(0.5), [0.0, 1.0, 2.0]),
        (fl.schedules.constant(fl.Ridge(0.3)), [0.3, 0.3, 0.3]),
        (fl.Ridge([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]),
        (fl.Projection(), [0.0, 0.0, 0.0]),
        (lambda k, radius: fl.Ridge(radius * np.arange(1, k + 1)), [1.0, 2.0, 3.0]),
    ],
)
def test_schedules(schedule, wanted):
    assert list(fresh(schedule=schedule)[2].lambdas) == pytest.approx(wanted, rel=1e-15)


@pytest.mark.parametrize(
    ("schedule", "error", "words"),
    [
        ([1.0, 2.0], ValueError, "2 numbers but n_tasks is 3"),
        (-1.0, ValueError, "nonnegative"),
        ([0.0, float("inf"), 1.0], ValueError, "finite at every step"),
        (lambda t: float("nan"), ValueError, "finite"),
        ("increasing", TypeError, "fl.schedules.increasing"),
        (None, TypeError, "must be a number"),
        (fl.GradientDescent(3, 0.1), ValueError, "flt.step_budgets"),
        (fl.schedules.from_coefficients([1.0]), ValueError, "schedule gives 1 steps"),
    ],
)
def test_schedules_that_are_refused(schedule, error, words):
    with pytest.raises(error, match=words):
        fresh(schedule=schedule)


def test_words_are_checked():
    for option, allowed in [("mode", "proximal"), ("metric", "auto"), ("center", "previous"), ("beyond", "hold")]:
        with pytest.raises(ValueError, match=f"{option} must be one of .*{allowed}"):
            fresh(**{option: "other"})
    with pytest.raises(ValueError, match="n_tasks must be at least 1"):
        fresh(n_tasks=0)


@pytest.mark.parametrize(
    "make", [lambda p: torch.optim.Adafactor(p), lambda p: Changed(p, lr=0.1)], ids=["adafactor", "subclass"]
)
def test_an_unknown_optimizer_is_told_both_ways_out(make):
    with pytest.raises(TypeError, match=r"metric='decoupled'.*mode='loss'"):
        fresh(make=make)
    for option in ({"mode": "loss"}, {"metric": "decoupled"}):
        net, optimizer, _ = fresh(make=make, **option)
        train(net, optimizer, batches(2))


class Changed(torch.optim.SGD):
    """Steps in a way of its own."""

    def step(self, closure=None):
        super().step(closure)


def test_the_first_task_is_free_and_the_pull_counts_tasks():
    net, optimizer, anchor = fresh(schedule=[1.0, 2.0, 3.0])
    plain = mlp()
    other = OPTIMIZERS["momentum"](plain.parameters())
    for model, opt in ((net, optimizer), (plain, other)):
        train(model, opt, batches(4))
    assert torch.equal(weights(net), weights(plain))
    assert (anchor.task, anchor.strength) == (1, 0.0)
    for task, strength in ((2, 2.0), (3, 3.0)):
        anchor.next_task(untrained=True)
        assert (anchor.task, anchor.strength) == (task, strength)


def test_one_step_literally():
    """Two groups with rates of their own, momentum, importances: the share of every weight by its formula."""
    net = mlp()
    groups = [{"params": net[0].parameters()}, {"params": net[2].parameters(), "lr": 0.02, "momentum": 0.5}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    anchor = flt.Anchor(net, optimizer, [0.0, 3.0], 2)
    generator = torch.Generator().manual_seed(5)
    omega = {n: torch.rand(p.shape, generator=generator) for n, p in net.named_parameters()}
    train(net, optimizer, batches(3))
    anchor.next_task(omega)
    center = {n: p.detach().clone() for n, p in net.named_parameters()}
    twin, twin_optimizer = copy.deepcopy(net), None
    twin_groups = [{"params": twin[0].parameters()}, {"params": twin[2].parameters(), "lr": 0.02, "momentum": 0.5}]
    twin_optimizer = torch.optim.SGD(twin_groups, lr=0.1, momentum=0.9)
    twin_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for model, opt in ((net, optimizer), (twin, twin_optimizer)):
        train(model, opt, batches(1, seed=1))
    for n, p in twin.named_parameters():
        lr, damping = (0.1, 0.1) if n.startswith("0") else (0.02, 0.5)
        share = lr * 3.0 * omega[n] / (damping + lr * 3.0 * omega[n])
        wanted = p.detach() + share * (center[n] - p.detach())
        torch.testing.assert_close(dict(net.named_parameters())[n].detach(), wanted, rtol=1e-6, atol=1e-7)


def test_past_the_horizon_nothing_moves():
    net, optimizer, anchor = fresh(n_tasks=2)
    for _ in range(2):
        train(net, optimizer, batches(2))
        anchor.next_task()  # also after the last task
    before = weights(net)
    with pytest.raises(ValueError, match=r"task 3 is beyond the horizon of 2 tasks.*beyond='hold'"):
        train(net, optimizer, batches(1))
    assert torch.equal(weights(net), before)
    net, optimizer, anchor = fresh(n_tasks=2, schedule=[1.0, 5.0], beyond="hold")
    for _ in range(4):
        train(net, optimizer, batches(2))
        anchor.next_task()
    assert anchor.strength == 5.0


def test_all_anchors_are_the_mean_of_their_quadratics():
    """Identity and diagonal, a zero importance among them: the gradient of one quadratic is that of the sum."""
    generator = torch.Generator().manual_seed(0)
    for weighted in (True, False):
        net = nn.Linear(6, 1, bias=False).double()
        A, F = (torch.rand(4, 1, 6, generator=generator).double() for _ in range(2))
        F[:, 0, 0] = 0.0
        F[:2, 0, 1] = 0.0
        if not weighted:
            F[:] = 1.0
        anchor = flt.Anchor(net, torch.optim.SGD(net.parameters(), lr=0.1), 2.0, 9, mode="loss", center="all")
        for a, f in zip(A, F, strict=True):
            with torch.no_grad():
                net.weight.copy_(a)
            anchor.next_task({"weight": f} if weighted else None, untrained=True)
        with torch.no_grad():
            net.weight.copy_(torch.rand(1, 6, generator=generator))
        explicit = torch.autograd.grad((F / 4 * (net.weight - A) ** 2).sum(), net.weight)[0]
        found = torch.autograd.grad(anchor.penalty(), net.weight)[0]
        torch.testing.assert_close(found, explicit, rtol=1e-12, atol=1e-15)
        state = anchor.state_dict()
        assert len(state["center"]) == 1
        assert len(state["omega"]) == (1 if weighted else 0)


def test_importances_that_are_refused():
    net, _, anchor = fresh()
    good = {n: torch.ones_like(p) for n, p in net.named_parameters()}
    for bad, words in [
        ({**good, "head": torch.ones(1)}, "names 'head', which is no parameter"),
        ({n: v for n, v in good.items() if n != "0.bias"}, "lacks '0.bias'"),
        ({**good, "0.bias": torch.ones(3)}, r"must have shape \(8,\), got \(3,\)"),
        ({**good, "0.bias": -torch.ones(8)}, "nonnegative and finite"),
        ({**good, "0.bias": torch.full((8,), float("nan"))}, "nonnegative and finite"),
    ]:
        with pytest.raises(ValueError, match=words):
            anchor.next_task(bad)
    with pytest.raises(TypeError, match="dict of tensors"):
        anchor.next_task([1.0])
    assert (anchor.task, anchor.strength) == (1, 0.0)  # a refusal changes nothing
    anchor.next_task(good, untrained=True)
    with pytest.raises(ValueError, match=r"give that of every task, .* or of none"):
        anchor.next_task()


def test_frozen_and_gradientless_parameters_stay():
    net, optimizer, anchor = fresh(schedule=100.0)
    train(net, optimizer, batches(2))
    anchor.next_task()
    train(net, optimizer, batches(2, seed=1))
    net[0].weight.requires_grad_(False)
    net[0].weight.grad = None
    before = net[0].weight.detach().clone()
    last = net[2].weight.detach().clone()
    train(net, optimizer, batches(3, seed=2))
    assert torch.equal(net[0].weight, before)
    assert not torch.equal(net[2].weight, last)


def test_clipping_does_not_see_the_proximal_step():
    """Gradients are those of the loss alone: their norm is the same with and without an anchor at the same weights."""
    norms = []
    for schedule in (0.0, 1e6):
        net, optimizer, _ = fresh(schedule=schedule, make=lambda p: torch.optim.SGD(p, lr=0.1), start=True)
        clip = lambda net=net: norms.append(float(nn.utils.clip_grad_norm_(net.parameters(), 0.01)))  # noqa: E731
        train(net, optimizer, batches(1), clip)
    assert norms[0] == norms[1] > 0.01


@pytest.mark.parametrize("center", ["previous", "all"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["nesterov", "adam", "adamw fused"])
def test_resuming_is_bit_identical(name, weighted, center):
    def importance(net):
        return flt.fisher(net, batches(1)[0][0]) if weighted else None

    def run(net, optimizer, anchor, tasks):
        for task in tasks:
            train(net, optimizer, batches(4, seed=task))
            anchor.next_task(importance(net))

    options = {"make": OPTIMIZERS[name], "schedule": fl.schedules.increasing(), "n_tasks": 4, "center": center}
    whole = fresh(**options)
    run(*whole, range(2))
    train(whole[0], whole[1], batches(3, seed=9))  # in the middle of a task
    file = io.BytesIO()
    torch.save([part.state_dict() for part in whole], file)
    run(*whole, range(2, 4))
    resumed = fresh(seed=7, **options)
    for part, state in zip(resumed, torch.load(io.BytesIO(file.getvalue()), weights_only=True), strict=True):
        part.load_state_dict(state)
    run(*resumed, range(2, 4))
    assert torch.equal(weights(whole[0]), weights(resumed[0]))


def test_a_saved_state_does_not_change_later():
    net, optimizer, anchor = fresh()
    anchor.next_task(untrained=True)
    state = anchor.state_dict()
    saved = copy.deepcopy(state)
    train(net, optimizer, batches(3))
    anchor.next_task()
    assert all(torch.equal(state["center"][n], saved["center"][n]) for n in saved["center"])


NAN = float("nan")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"schedule": [2.0, 1.0, 1.0]},
            r"state\['schedule'\] has 3 strengths from 2 to 1, this .* from 1 to 1",
        ),
        ({"center_of": "all"}, "center='all'"),
        ({"version": 1}, "not that of an Anchor of this version"),
        ({"task": -1}, r"state\['task'\] must be at least 1, got -1"),
        ({"task": 2.5}, r"state\['task'\] must be an integer"),
        ({"n_anchors": 7}, r"state\['n_anchors'\] must be 1 or 2 in task 2, got 7"),
        ({"weighted": None}, r"state\['weighted'\] must be a boolean"),
        ({"names": []}, r"state\['names'\] must name the parameters"),
        ({"center": {}}, r"state\['center'\] lacks '0.weight'"),
        ({"omega": {}}, r"state\['omega'\] lacks '0.weight'"),
        ({"center 0.bias": torch.ones(2)}, r"state\['center'\]\['0.bias'\] must have shape \(8,\), got \(2,\)"),
        ({"omega 0.bias": torch.ones(2)}, r"state\['omega'\]\['0.bias'\] must have shape \(8,\), got \(2,\)"),
        ({"center 0.bias": "text"}, r"state\['center'\]\['0.bias'\] must have shape \(8,\), got str"),
        ({"center other": torch.ones(2)}, r"state\['center'\]\['other'\] is no parameter"),
        ({"center 0.bias": torch.full((8,), NAN)}, r"state\['center'\]\['0.bias'\] must be finite"),
        ({"omega 0.bias": torch.full((8,), NAN)}, r"state\['omega'\]\['0.bias'\] must be nonnegative and finite"),
        ({"omega 0.bias": -torch.ones(8)}, r"state\['omega'\]\['0.bias'\] must be nonnegative"),
    ],
)
def test_damaged_states_are_rejected_and_change_nothing(changes, message):
    net, _, anchor = fresh()
    anchor.next_task({name: torch.ones_like(p) for name, p in net.named_parameters()}, untrained=True)
    state = anchor.state_dict()
    for key, value in changes.items():
        part, _, name = key.partition(" ")
        state[part] = {**state[part], name: value} if name else value
    other = fresh()[2]
    with pytest.raises((TypeError, ValueError), match=message):
        other.load_state_dict(state)
    assert other.state_dict() == fresh()[2].state_dict()
    with pytest.raises(ValueError, match="not that of an Anchor"):
        other.load_state_dict({"task": 1})


def _interrupted(call, line):
    """Call, with Ctrl-C before the given line that is executed in the module of anchors; return whether it came."""
    lines = itertools.count()

    def trace(frame, event, _):
        if frame.f_code.co_filename != anchor_module.__file__:
            return None
        if event == "line" and next(lines) == line:
            raise KeyboardInterrupt
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracing)
    return False


def test_an_interruption_of_next_task_leaves_the_old_state_or_the_new_one():
    """Ctrl-C before each line: centers, their number and the task are those before the call or those after it."""
    for line in itertools.count():
        net, optimizer, anchor = fresh(center="all")
        anchor.next_task(untrained=True)
        train(net, optimizer, batches(1))
        old, twin = copy.deepcopy(anchor.state_dict()), fresh(center="all")[2]
        came = _interrupted(anchor.next_task, line)
        state = anchor.state_dict()
        is_old = all(torch.equal(state["center"][name], old["center"][name]) for name in old["center"])
        assert (state["task"], state["n_anchors"]) == ((2, 1) if is_old else (3, 2))
        twin.load_state_dict(state)
        if not came:
            break
    assert line > 20
    assert not is_old


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (2.0, [2.0] * 9),
        (lambda t: 0.5 * t, [0.5 * t for t in range(1, 10)]),
        (fl.Ridge(0.3), [0.3] * 9),
        (fl.schedules.increasing(scale=3.0), [3.0, 3.75, 5.0, 7.5, 3.0, 3.75, 5.0, 7.5, 3.0]),
    ],
)
def test_without_a_number_of_tasks_the_anchor_continues_for_ever(schedule, expected):
    net, optimizer, anchor = fresh(schedule=schedule, n_tasks=None)
    strengths = []
    for task in range(9):
        train(net, optimizer, batches(1, seed=task))
        anchor.next_task()
        strengths.append(anchor.strength)
        if task == 4:
            resumed = fresh(schedule=schedule, n_tasks=None)[2]
            resumed.load_state_dict(anchor.state_dict())
            assert resumed.strength == anchor.strength
    assert strengths[:8] == pytest.approx(expected[1:])
    assert list(anchor.lambdas[:9]) == pytest.approx(expected)
    assert repr(anchor).startswith("Anchor(9 tasks learned")


def test_a_list_without_a_number_of_tasks_is_its_own_horizon():
    for schedule in ([1.0, 2.0], fl.Ridge([1.0, 2.0]), fl.schedules.from_coefficients([1.0, 2.0])):
        net, optimizer, anchor = fresh(schedule=schedule, n_tasks=None)
        assert anchor.lambdas == (1.0, 2.0)
        anchor.next_task(untrained=True)
        anchor.next_task(untrained=True)
        with pytest.raises(ValueError, match="task 3 is beyond the horizon of 2 tasks"):
            train(net, optimizer, batches(1))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_growing_head(weighted):
    net, optimizer, anchor = fresh(schedule=1e6, make=OPTIMIZERS["sgd"], n_tasks=9)
    ones = None if not weighted else {n: torch.ones_like(p) for n, p in net.named_parameters()}
    anchor.next_task(ones, untrained=True)
    before = copy.deepcopy(net)
    old, net[2] = net[2], nn.Linear(8, 5)
    with torch.no_grad():
        net[2].weight[:3], net[2].bias[:3] = old.weight, old.bias
    with pytest.raises(ValueError, match=r"2.weight is anchored, .* call anchor.grow\(optimizer=optimizer\)"):
        anchor.next_task(None if not weighted else {n: torch.ones_like(p) for n, p in net.named_parameters()})
    optimizer = OPTIMIZERS["sgd"](net.parameters())
    anchor.optimizer = optimizer
    with pytest.raises(ValueError, match=r"2.weight had shape \(3, 8\) and has \(5, 8\); call anchor.grow\(\)"):
        anchor.step()
    anchor.grow(optimizer=optimizer)
    new = net[2].weight[3:].detach().clone()
    train(net, optimizer, batches(5, classes=5))
    assert apart(net[2].weight[:3], before[2].weight) < 1e-5
    assert apart(net[0].weight, before[0].weight) < 1e-5
    assert apart(net[2].weight[3:], new) > 1e-3
    anchor.next_task(None if not weighted else {n: torch.ones_like(p) for n, p in net.named_parameters()})
    omega = anchor.state_dict()["omega"]["2.weight"]  # one task of two
    assert torch.equal(omega, torch.tensor([1.0, 1.0, 1.0, 0.5, 0.5])[:, None].expand(5, 8))
    held = net[2].weight.detach().clone()
    train(net, optimizer, batches(5, seed=3, classes=5))
    assert apart(net[2].weight, held) < 1e-5
    net[2] = nn.Linear(8, 2)
    optimizer = OPTIMIZERS["sgd"](net.parameters())
    with pytest.raises(ValueError, match="not shrink"):
        anchor.grow(optimizer=optimizer)


def test_new_groups_and_a_new_layer_are_pulled_after_their_first_task():
    net, optimizer, anchor = fresh(schedule=1e6, n_tasks=9, make=OPTIMIZERS["adam"])
    train(net, optimizer, batches(2))
    anchor.next_task()
    net.append(nn.Linear(3, 3))
    optimizer.add_param_group({"params": net[3].parameters()})
    before = copy.deepcopy(net)
    train(net, optimizer, batches(3, seed=1))
    assert apart(net[0].weight, before[0].weight) < 1e-6
    assert apart(net[3].weight, before[3].weight) > 1e-3
    anchor.next_task()
    held = weights(net)
    train(net, optimizer, batches(3, seed=2))
    assert apart(weights(net), held) < 1e-6


def test_an_optimizer_of_other_parameters_is_refused():
    with pytest.raises(ValueError, match="holds no parameter of the model"):
        flt.Anchor(mlp(), OPTIMIZERS["sgd"](mlp().parameters()), 1.0, 2)


def test_removing_and_stepping_by_hand():
    pulled, optimizer, anchor = fresh(schedule=10.0, start=True)
    hand, hand_optimizer, hand_anchor = fresh(schedule=10.0, start=True, mode="manual")
    for batch in batches(4):
        train(pulled, optimizer, [batch])
        train(hand, hand_optimizer, [batch])
        hand_anchor.step()
    assert torch.equal(weights(pulled), weights(hand))
    anchor.remove()
    train(pulled, optimizer, batches(2))
    train(hand, hand_optimizer, batches(2))
    assert torch.equal(weights(pulled), weights(hand))


def test_penalties_do_not_count_twice():
    net, _, anchor = fresh()
    with pytest.raises(RuntimeError, match="count twice"):
        anchor.penalty()
    anchor = flt.Anchor(net, torch.optim.RMSprop(net.parameters()), 2.0, 3, mode="loss")
    assert anchor.penalty().item() == 0.0
    anchor.next_task()
    with torch.no_grad():
        net[0].bias += 0.5
    assert anchor.penalty().item() == pytest.approx(2.0 / 2 * 8 * 0.25)
    with pytest.raises(RuntimeError, match=r"add anchor.penalty\(\)"):
        anchor.step()


def test_coarse_weights_are_warned_of():
    net = mlp().to(torch.bfloat16)
    with pytest.warns(UserWarning, match=r"torch.bfloat16 lose proximal steps below 2\^-8"):
        flt.Anchor(net, OPTIMIZERS["sgd"](net.parameters()), 1.0, 2)


@pytest.mark.parametrize(("overflows", "expected"), [(0.0, True), (1.0, False), (2.0, False)])
def test_an_overflow_on_some_device_skips_the_proximal_step(overflows, expected):
    """The number of devices with an overflow is on a device of its own; 0 makes the usual step."""
    steps = []
    for found_inf in (None, SimpleNamespace(device=torch.device("cuda"), clamp=torch.tensor(overflows).clamp)):
        torch.manual_seed(0)
        net = nn.Linear(3, 1, bias=False)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
        anchor = flt.Anchor(net, optimizer, 1.0, 3)
        anchor.next_task(untrained=True)
        net.weight.data += 1.0
        net.weight.grad, before = torch.zeros_like(net.weight), net.weight.detach().clone()
        if found_inf is not None:
            optimizer.found_inf = found_inf
        anchor.step()
        steps.append(net.weight.detach() - before)
    usual, step = steps
    torch.testing.assert_close(usual, torch.full((1, 3), -1.0 / 3.0))  # γλ/(1 + γλ) of the way back
    torch.testing.assert_close(step, usual if expected else torch.zeros_like(usual))


def test_a_recording_fits_the_same_memory_and_constants_only():
    """Of kernels on a GPU, which refer to addresses; the check itself needs none."""
    tensors = [torch.zeros(2), torch.zeros(3)]
    recording = _proximal.Recording.__new__(_proximal.Recording)
    recording._constants, recording._places = (1e-8, 0.999), [each.data_ptr() for each in tensors]
    assert recording.fits(tensors, (1e-8, 0.999))
    assert not recording.fits(tensors, (1e-8, 0.9))
    assert not recording.fits([tensors[0], torch.zeros(3)], (1e-8, 0.999))
    assert not recording.fits(tensors[:1], (1e-8, 0.999))


class Lion(torch.optim.Optimizer):
    """Chen et al. (2023): steps by the sign of an interpolated momentum."""

    def __init__(self, params, lr=0.01):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                momentum = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.sub_(group["lr"] * torch.lerp(p.grad, momentum, 0.9).sign())
                momentum.lerp_(p.grad, 0.01)


OTHERS = {"adafactor": torch.optim.Adafactor, "muon": torch.optim.Muon, "lion": Lion, "adamax": torch.optim.Adamax}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_a_decoupled_step_of_any_optimizer_by_its_formula(name, weighted):
    """After the optimizer's own step from the same weights: w ← w + s(a − w), s = γλΩ/(1 + γλΩ)."""
    nets = [nn.Linear(6, 3, bias=False) for _ in range(2)]  # Muon takes matrices only
    optimizers = [OTHERS[name](net.parameters(), lr=0.02) for net in nets]
    with pytest.raises(TypeError, match=f"{type(optimizers[0]).__name__} steps is not known.*metric='decoupled'"):
        flt.Continual(nets[0], optimizers[0], proximal=1.0)
    continual = flt.Continual(nets[0], optimizers[0], proximal=7.0, metric="decoupled")
    train(nets[0], optimizers[0], batches(2))
    omega = torch.rand(3, 6) if weighted else torch.ones(3, 6)
    continual.next_task({"weight": omega} if weighted else None)
    center = nets[0].weight.detach().clone()
    for x in batches(3, seed=1):
        nets[1].load_state_dict(nets[0].state_dict())
        optimizers[1].load_state_dict(copy.deepcopy(optimizers[0].state_dict()))
        for net, optimizer in zip(nets, optimizers, strict=True):
            train(net, optimizer, [x])
        with torch.no_grad():
            share = 0.02 * 7.0 * omega / (1 + 0.02 * 7.0 * omega)
            expected = nets[1].weight + share * (center - nets[1].weight)
        torch.testing.assert_close(nets[0].weight.detach(), expected, rtol=1e-5, atol=1e-7)


def test_an_optimizer_without_a_learning_rate_is_rejected():
    """As transformers' Adafactor by default, which chooses its rate by the number of steps."""
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.param_groups[0]["lr"] = None
    for create in (
        lambda: flt.Anchor(net, optimizer, 1.0, metric="decoupled"),
        lambda: flt.Continual(net, optimizer, step_size="inverse"),
    ):
        with pytest.raises(TypeError, match=r"SGD has lr=None.*mode='loss'"):
            create()
    assert not optimizer._optimizer_step_post_hooks
    flt.Continual(net, optimizer, average="moving").remove()
