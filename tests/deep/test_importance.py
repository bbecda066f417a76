"""Importances against a loop over samples and labels; no trace is left in the model."""

import copy
import types

import pytest
import torch
from torch import nn

import forgetless.torch as flt
from forgetless.torch import _per_sample as module
from support.deep.networks import mlp


class Residual(nn.Module):
    """A convolutional network with normalization, groups, work in place and a shortcut."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=2, bias=False)
        self.group = nn.GroupNorm(2, 4)
        self.act = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4, 3)
        nn.init.uniform_(self.norm.running_mean)

    def forward(self, x):
        x = self.act(self.norm(self.first(x)))
        return self.head(self.drop(self.act(self.group(self.second(x))) + x).mean((2, 3)))


class Sequences(nn.Module):
    """Linear layers, a norm and a convolution on (batch, time, features)."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Linear(3, 4), nn.LayerNorm(4)
        self.conv, self.head = nn.Conv1d(4, 4, 3, padding=1), nn.Linear(4, 3)

    def forward(self, x):
        x = self.norm(torch.tanh(self.embed(x)))
        return self.head(self.conv(x.transpose(1, 2)).mean(2))


class Twice(nn.Module):
    """A layer used twice, whose two gradients add up before they are squared."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.layer(torch.tanh(self.layer(x)))))


class Borrowed(Twice):
    """A layer's weight used outside of it, which only the comparison with autograd notices."""

    def forward(self, x):
        return self.head(torch.tanh(self.layer(x)) @ self.layer.weight)


class Own(nn.Module):
    """A parameter of its own, and an embedding: no layer that is understood."""

    def __init__(self):
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.rand(5)), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.scale * x))


def convolutional(layer, n):
    return nn.Sequential(layer, nn.Tanh(), nn.Flatten(), nn.Linear(n, 3))


MODELS = {
    "mlp": (lambda: mlp(1, (5, 7, 4, 3)), (5,), True),
    "residual": (Residual, (2, 6, 6), True),
    "sequences": (Sequences, (6, 3), True),
    "circular": (lambda: convolutional(nn.Conv1d(2, 4, 3, padding="same", padding_mode="circular"), 24), (2, 6), True),
    "3-d": (lambda: convolutional(nn.Conv3d(2, 3, 2, groups=1), 24), (2, 3, 3, 3), True),
    "twice": (Twice, (5,), False),
    "borrowed": (Borrowed, (5,), False),
    "own": (Own, (5,), False),
}


def made(name, n=11):
    torch.manual_seed(3)
    build, shape, layered = MODELS[name]
    return build().double(), torch.randn(n, *shape).double(), torch.randint(3, (n,)), layered


def loop(model, x, y, kind):
    """One sample and one label at a time, by definition."""
    model = copy.deepcopy(model).eval()
    params = {n: p for n, p in model.named_parameters() if p.requires_grad}
    total = {n: torch.zeros_like(p) for n, p in params.items()}

    def add(value, weight, reduce):
        for n, g in zip(params, torch.autograd.grad(value, list(params.values()), retain_graph=True), strict=True):
            total[n] += weight * reduce(g) / len(x)

    for i in range(len(x)):
        out = model(x[i : i + 1])[0]
        if kind == "mas":
            add(out.square().sum(), 1.0, torch.abs)
        elif kind == "gaussian expected":
            for value in out:
                add(value, 1.0, torch.square)
        elif kind == "gaussian true":
            add(-0.5 * (torch.ones(3) - out).square().sum(), 1.0, torch.square)
        elif kind == "true":
            add(out.log_softmax(0)[y[i]], 1.0, torch.square)
        else:
            for value in out.log_softmax(0):
                add(value, float(value.detach().exp()), torch.square)
    return total


def compute(model, x, y, kind, **options):
    if kind == "mas":
        return flt.mas(model, x, **options)
    if kind == "gaussian expected":
        return flt.fisher(model, x, likelihood="gaussian", **options)
    if kind == "gaussian true":
        return flt.fisher(model, (x, torch.ones(len(x), 3).double()), likelihood="gaussian", labels="true", **options)
    return flt.fisher(model, (x, y), labels=kind, **options)


@pytest.mark.parametrize("kind", ["expected", "true", "mas", "gaussian expected", "gaussian true"])
@pytest.mark.parametrize("name", MODELS)
def test_equal_to_a_loop_over_samples(name, kind, monkeypatch):
    model, x, y, layered = made(name)
    slow = []
    by_vmap = module.by_vmap
    monkeypatch.setattr(module, "by_vmap", lambda *args: slow.append(1) or by_vmap(*args))
    found, wanted = compute(model, x, y, kind), loop(model, x, y, kind)
    assert bool(slow) is not layered
    assert found.keys() == wanted.keys()
    for n in wanted:
        torch.testing.assert_close(found[n], wanted[n], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("name", ["mlp", "residual", "own"])
def test_batches_chunks_and_loaders_make_no_difference(name):
    model, x, y, _ = made(name)
    wanted = flt.fisher(model, (x, y))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)
    for found in (flt.fisher(model, loader), flt.fisher(model, (x, y), chunk=2), flt.fisher(model, x.split(3))):
        for n in wanted:
            torch.testing.assert_close(found[n], wanted[n], rtol=1e-12, atol=0)
    part = flt.fisher(model, loader, n_samples=6)
    for n, value in flt.fisher(model, (x[:6], y[:6])).items():
        torch.testing.assert_close(part[n], value, rtol=1e-12, atol=0)


def test_single_precision():
    model, x, _, _ = made("mlp", 200)
    wanted = flt.fisher(model, x)
    found = flt.fisher(model.float(), x.float())
    for n in wanted:
        assert float((found[n] - wanted[n]).norm() / wanted[n].norm()) < 1e-6


@pytest.mark.parametrize("likelihood", ["categorical", "gaussian"])
def test_sampled_labels_are_unbiased(likelihood):
    model, x, _, _ = made("mlp", 5)
    wanted, generator = flt.fisher(model, x, likelihood=likelihood), torch.Generator().manual_seed(0)
    many = x.repeat(4000, 1)
    found = flt.fisher(model, many, labels="sampled", likelihood=likelihood, generator=generator)
    for n in wanted:
        assert float((found[n] - wanted[n]).norm() / wanted[n].norm()) < 0.1  # about 1/√4000 of each term
    same = [
        flt.fisher(model, x, labels="sampled", likelihood=likelihood, generator=torch.Generator().manual_seed(1))
        for _ in range(2)
    ]
    assert all(torch.equal(same[0][n], same[1][n]) for n in wanted)


@pytest.mark.parametrize("name", ["residual", "own"])
def test_no_trace_is_left(name):
    model, x, y, _ = made(name)
    model.train()
    if name == "residual":
        model.norm.eval()  # a mode of its own
        model.head.bias.requires_grad_(False)
    before = copy.deepcopy(model.state_dict())
    modes = [m.training for m in model.modules()]
    (model(x).sum()).backward()
    model.load_state_dict(before)
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    state = torch.random.get_rng_state()
    found = flt.fisher(model, (x, y)) | flt.mas(model, x)
    assert torch.equal(state, torch.random.get_rng_state())
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(value, model.state_dict()[n]) for n, value in before.items())
    for p, g in zip(model.parameters(), grads, strict=True):
        assert (p.grad is None and g is None) or torch.equal(p.grad, g)
    assert ("head.bias" in found) == (name == "own")


def test_errors_name_the_cure():
    model, x, y, _ = made("mlp")
    with pytest.raises(ValueError, match="labels='true' needs labels"):
        flt.fisher(model, x, labels="true")
    with pytest.raises(ValueError, match="labels must be one of 'expected', 'sampled', 'true', got 'real'"):
        flt.fisher(model, x, labels="real")
    with pytest.raises(ValueError, match="likelihood='gaussian'"):
        flt.fisher(nn.Linear(5, 1).double(), x)
    with pytest.raises(ValueError, match="no sample"):
        flt.fisher(model, [])
    with pytest.raises(ValueError, match="requires_grad"):
        flt.mas(copy.deepcopy(model).requires_grad_(False), x)
    with pytest.raises(TypeError, match="a batch must be a tensor"):
        flt.mas(model, [["text"]])
    with pytest.raises(ValueError, match=r"labels have shape \(11,\)"):
        flt.fisher(model, (x, y), labels="true", likelihood="gaussian")
    with pytest.raises(ValueError, match="n_samples must be at least 1"):
        flt.fisher(model, x, n_samples=0)


def test_wrappers_do_not_change_names():
    model, x, _, _ = made("mlp")
    wrapped = nn.DataParallel(torch.compile(model, backend="eager"))
    assert flt.fisher(wrapped, x).keys() == dict(model.named_parameters()).keys()


# ------------------------------------------------------------------------------------------------------ sequences


class Sequences(nn.Module):
    """Logits (batch, time, 3) of tokens, by layers whose gradients factor, or with an embedding, whose do not."""

    def __init__(self, embedded, output):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(5, 4)
        self.embedding.requires_grad_(embedded)
        self.hidden, self.head = nn.Linear(4, 6), nn.Linear(6, 3)
        self.output = output

    def forward(self, input_ids, attention_mask=None):
        logits = self.head(torch.tanh(self.hidden(self.embedding(input_ids).cumsum(1))))
        if self.output == "object":
            return types.SimpleNamespace(logits=logits, loss=None)
        return {"logits": logits} if self.output == "dictionary" else logits


TOKENS = torch.tensor([[0, 1, 2, 3], [4, 3, 0, 0], [1, 1, 4, 2]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])


def by_autograd(net, squares_of):
    """Mean over sequences of what ``squares_of(logits of one sequence, its number)`` differentiates and weights."""
    params = {n: p for n, p in net.named_parameters() if p.requires_grad}
    total = {n: torch.zeros_like(p) for n, p in params.items()}
    for i in range(len(TOKENS)):
        out = net(TOKENS[i : i + 1])
        out = out if isinstance(out, torch.Tensor) else out["logits"] if isinstance(out, dict) else out.logits
        for value, weight in squares_of(out[0].log_softmax(-1), i):
            gradients = torch.autograd.grad(value, list(params.values()), retain_graph=True)
            for n, g in zip(params, gradients, strict=True):
                total[n] += weight * g.square() / len(TOKENS)
    return total


@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize("output", ["tensor", "object", "dictionary"])
def test_sequences_by_definition(output, embedded):
    net = Sequences(embedded, output)
    masked = {"input_ids": TOKENS, "attention_mask": MASK, "labels": TOKENS}
    for data, mask in ((TOKENS, torch.ones_like(MASK)), ([masked], MASK)):

        def each(log, i, mask=mask):
            for t in range(4):
                for c in range(3):
                    yield log[t, c], float(mask[i, t]) * float(log[t, c].detach().exp())

        found, wanted = flt.fisher(net, data), by_autograd(net, each)
        for name, value in wanted.items():
            torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-7)
        generator = torch.Generator().manual_seed(0)
        repeated = [flt.fisher(net, data, labels="sampled", generator=generator) for _ in range(300)]
        mean = torch.stack([each["head.bias"] for each in repeated]).mean(0)
        spread = torch.stack([each["head.bias"] for each in repeated]).std(0) / 300**0.5
        assert bool(((mean - wanted["head.bias"]).abs() < 4.5 * spread).all())


def test_true_labels_of_sequences_stand_beside_their_logits():
    net, y = Sequences(False, "tensor"), torch.tensor([[0, 2, 1, -100], [1, -100, 0, 0], [2, 2, 2, 1]])

    def total(log, i):
        yield sum(log[t, y[i, t]] for t in range(4) if y[i, t] >= 0), 1.0

    found, wanted = flt.fisher(net, (TOKENS, y), labels="true"), by_autograd(net, total)
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-7)
    with pytest.raises(ValueError, match=r"labels have shape \(3, 3\), logits \(3, 4, 3\)"):
        flt.fisher(net, (TOKENS, y[:, :3]), labels="true")
    with pytest.raises(ValueError, match="labels='true' needs labels beside the logits"):
        flt.fisher(net, [{"input_ids": TOKENS}], labels="true")
    with pytest.raises(ValueError, match=r"4 positions and 1000 classes.*labels='sampled'"):
        flt.fisher(nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 1000)), TOKENS)
    with pytest.raises(TypeError, match="an object with one called logits, got SimpleNamespace"):
        flt.fisher(Scores(), torch.ones(2, 2))
    assert set(flt.mas(Sequences(True, "object"), [{"input_ids": TOKENS}], n_samples=2)) == set(
        dict(Sequences(True, "object").named_parameters())
    )


class Scores(nn.Linear):
    """Returns an object without logits."""

    def __init__(self):
        super().__init__(2, 2)

    def forward(self, x):
        return types.SimpleNamespace(scores=super().forward(x))


def test_a_path_follows_what_the_optimizer_trains():
    """Neither frozen parameters nor those of which the optimizer does not know."""
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1), nn.Linear(1, 1))
    net[0].weight.requires_grad_(False)
    optimizer = torch.optim.SGD([*net[0].parameters(), *net[1].parameters()], lr=0.1)
    path = flt.PathIntegral(net, optimizer)
    net(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    assert set(path.importance()) == {"0.bias", "1.weight", "1.bias"}
