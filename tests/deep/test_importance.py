"""Importances against a loop over samples and labels; no trace is left in the model."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import forgetless.torch as flt
from support.deep.models import MODELS, Language, Layers, Twice
from support.deep.networks import DEVICES, mlp


def made(name, n=11):
    torch.manual_seed(3)
    build, shape = MODELS[name]
    return build().double(), torch.randn(n, *shape).double(), torch.randint(3, (n,))


def literal(model, x, terms, reduce=torch.square):
    """Mean over samples of weight · reduce(gradient of value), for all (value, weight) of ``terms(logits, sample)``."""
    model = copy.deepcopy(model).eval()
    params = {n: p for n, p in model.named_parameters() if p.requires_grad}
    total = {n: torch.zeros_like(p) for n, p in params.items()}
    for i in range(len(x)):
        out = model(x[i : i + 1])
        out = out["logits"] if isinstance(out, dict) else getattr(out, "logits", out)
        for value, weight in terms(out[0], i):
            gradients = torch.autograd.grad(value, list(params.values()), retain_graph=True, materialize_grads=True)
            for n, gradient in zip(params, gradients, strict=True):
                total[n] += weight * reduce(gradient) / len(x)
    return total


def over_labels(out):
    """The logarithm of every probability, weighted by it."""
    return [(value, float(value.detach().exp())) for value in out.log_softmax(-1).flatten()]


KINDS = {
    "expected": lambda model, x, y: (
        flt.fisher(model, (x, y), labels="expected"),
        literal(model, x, lambda out, i: over_labels(out)),
    ),
    "true": lambda model, x, y: (
        flt.fisher(model, (x, y), labels="true"),
        literal(model, x, lambda out, i: [(out.log_softmax(0)[y[i]], 1.0)]),
    ),
    "gaussian": lambda model, x, y: (
        flt.fisher(model, x, likelihood="gaussian"),
        literal(model, x, lambda out, i: [(value, 1.0) for value in out]),
    ),
    "mas": lambda model, x, y: (
        flt.mas(model, x),
        literal(model, x, lambda out, i: [(out.square().sum(), 1.0)], torch.abs),
    ),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_equal_to_a_loop_over_samples(name, kind, device):
    found, wanted = KINDS[kind](*(each.to(device) for each in made(name)))
    assert found.keys() == wanted.keys()
    for n in wanted:
        torch.testing.assert_close(found[n], wanted[n], rtol=1e-9, atol=1e-14)


def test_samples_that_mix_are_noticed():
    """A layer before a mean over the batch, whose gradient is 0 for a sample by itself."""

    class Mixing(Twice):
        def forward(self, x):
            h = self.layer(x)
            return self.head(torch.tanh(h - h.mean(0, keepdim=True)))

    torch.manual_seed(3)
    model, x = Mixing().double(), torch.randn(6, 5).double()
    found = flt.fisher(model, x)
    assert not found["layer.weight"].any()
    assert found["head.bias"].all()


@pytest.mark.parametrize("name", ["mlp", "sequences", "residual"])
def test_batches_and_loaders_make_no_difference(name):
    model, x, y = made(name)
    wanted = flt.fisher(model, (x, y))
    loader = torch.utils.data.DataLoader(TensorDataset(x, y), batch_size=4)
    some, part = flt.fisher(model, (x[:6], y[:6])), flt.fisher(model, loader, max_samples=6)
    for data in (x, loader, x.split(3)):
        for n, value in flt.fisher(model, data).items():
            torch.testing.assert_close(value, wanted[n], rtol=1e-12, atol=0)
            torch.testing.assert_close(part[n], some[n], rtol=1e-12, atol=0)


@pytest.mark.parametrize(("network", "shape"), [(Layers, (40, 2, 3)), (Twice, (40, 400))], ids=["layers", "vmap"])
def test_gradients_of_many_samples_are_held_in_parts(network, shape):
    """Of 40 gradients of 160,000 numbers each, 16 MB at a time."""
    torch.manual_seed(0)
    net, x = network(400).double(), torch.randn(shape).double()
    whole, parts = flt.fisher(net, x), flt.fisher(net, x.split(8))
    for n in whole:
        torch.testing.assert_close(whole[n], parts[n], rtol=1e-9, atol=1e-20)


def test_sampled_labels_are_unbiased_and_drawn_apart():
    model, x, _ = made("mlp", 5)
    wanted, many, state = flt.fisher(model, x), x.repeat(4000, 1), torch.random.get_rng_state()
    found = flt.fisher(model, many, labels="sampled")
    for n in wanted:
        assert float((found[n] - wanted[n]).norm() / wanted[n].norm()) < 0.1  # about 1/√4000 of each term
    generator = torch.Generator().manual_seed(0)
    same = flt.fisher(model, x, labels="sampled", generator=generator), flt.fisher(model, x, labels="sampled")
    assert all(torch.equal(same[0][n], same[1][n]) for n in wanted)
    assert torch.equal(state, torch.random.get_rng_state())


def test_many_classes_are_sampled():
    for classes in (100, 101):
        model, x = mlp(1, (5, classes)).double(), torch.randn(3, 5).double()
        for n, value in flt.fisher(model, x).items():
            assert torch.equal(value, flt.fisher(model, x, labels="sampled")[n]) == (classes == 101)


def test_no_trace_is_left():
    model, x, y = made("residual")
    model.train().norm.eval()  # a mode of its own
    model.head.bias.requires_grad_(False)
    model(x).sum().backward()
    before, modes = copy.deepcopy(model.state_dict()), [m.training for m in model.modules()]
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    assert "head.bias" not in flt.fisher(model, (x, y)) | flt.mas(model, x)
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(value, model.state_dict()[n]) for n, value in before.items())
    for p, gradient in zip(model.parameters(), gradients, strict=True):
        assert (p.grad is None and gradient is None) or torch.equal(p.grad, gradient)


def test_errors_name_the_cure():
    model, x, y = made("mlp")
    for call, error, message in [
        (lambda: flt.fisher(model, x, labels="true"), ValueError, r"labels of shape \(11,\) .* got None; give batches"),
        (lambda: flt.fisher(model, (x, y[:, None]), labels="true"), ValueError, r"got \(11, 1\)"),
        (lambda: flt.fisher(model, x, labels="real"), ValueError, "labels must be one of auto, .*, got 'real'"),
        (lambda: flt.fisher(model, x, likelihood="normal"), ValueError, "likelihood must be categorical or gaussian"),
        (lambda: flt.fisher(nn.Linear(5, 1).double(), x), ValueError, "likelihood='gaussian'"),
        (lambda: flt.fisher(model, []), ValueError, "no sample"),
        (lambda: flt.mas(copy.deepcopy(model).requires_grad_(False), x), ValueError, "requires_grad"),
        (lambda: flt.mas(model, [["text"]]), TypeError, "a batch must be a tensor"),
        (lambda: flt.mas(model, [{"ids": [1, 2]}]), TypeError, "a batch must be a tensor"),
        (lambda: flt.fisher(), TypeError, "model must be a torch.nn.Module, got None.*flt.fisher without parentheses"),
        (lambda: flt.mas(model, TensorDataset(x, y)), TypeError, r"data must be .* got TensorDataset;.*DataLoader"),
        (lambda: flt.fisher(model, x, max_samples=0), ValueError, "max_samples must be at least 1"),
        (lambda: flt.fisher(Language(True, "scores"), TOKENS), TypeError, "called logits, got SimpleNamespace"),
    ]:
        with pytest.raises(error, match=message):
            call()


# ------------------------------------------------------------------------------------------------------ sequences


TOKENS = torch.tensor([[0, 1, 2, 3], [4, 3, 0, 0], [1, 1, 4, 2]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])


@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize("output", ["tensor", "object", "dictionary"])
def test_sequences_by_definition(output, embedded):
    """Sampled labels, with a mask or without: the mean over draws is that over all labels at all positions."""
    net = Language(embedded, output)
    masked = {"input_ids": TOKENS, "attention_mask": MASK, "labels": TOKENS}
    for data, mask in ((TOKENS, torch.ones_like(MASK)), ([masked], MASK)):
        wanted = literal(net, TOKENS, lambda out, i, mask=mask: over_labels(out[mask[i].bool()]))
        generator = torch.Generator().manual_seed(0)
        repeated = [flt.fisher(net, data, generator=generator) for _ in range(300)]
        for name in ("head.bias", "hidden.weight"):
            draws = torch.stack([draw[name] for draw in repeated])
            error = draws.std(0) / 300**0.5
            assert bool(((draws.mean(0) - wanted[name]).abs() < 4.5 * error + 1e-7).all())
    assert flt.mas(net, data, max_samples=2).keys() == flt.fisher(net, TOKENS[:, :1]).keys() == wanted.keys()


@pytest.mark.parametrize("embedded", [False, True])
def test_true_labels_of_sequences_stand_beside_their_logits(embedded):
    net, y = Language(embedded, "tensor"), torch.tensor([[0, 2, 1, -100], [1, -100, 0, 0], [2, 2, 2, 1]])

    def total(out, i):
        return [(sum(out.log_softmax(-1)[t, y[i, t]] for t in range(4) if y[i, t] >= 0), 1.0)]

    found, wanted = flt.fisher(net, (TOKENS, y), labels="true"), literal(net, TOKENS, total)
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-7)
    with pytest.raises(ValueError, match=r"labels of shape \(3, 4\) beside the logits, got \(3, 3\)"):
        flt.fisher(net, (TOKENS, y[:, :3]), labels="true")
    with pytest.raises(ValueError, match=r"every class and position.*labels='sampled'"):
        flt.fisher(net, TOKENS, labels="expected")
