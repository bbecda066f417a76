"""Small data for the tests of the benchmark, and its training written as anybody would: one network, plain loops."""

import copy
import gzip
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import forgetless.torch as flt
from deep import networks
from deep.data import Pool


def pictures(n, seed, side=28):
    """Return images of ten classes, each a pattern with noise, and their labels."""
    rng = np.random.default_rng(seed)
    patterns = np.random.default_rng(0).integers(0, 200, (10, side * side))
    labels = rng.integers(10, size=n).astype(np.uint8)
    noise = rng.integers(0, 56, (n, side * side))
    return (patterns[labels] + noise).astype(np.uint8), labels


def pool(side=28):
    return Pool({part: pictures(300, seed, side) for seed, part in enumerate(("train", "val", "test"))})


def idx_files(folder, zipped=True):
    """Write the four files of an image collection, as they are published."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, part in enumerate(("train", "t10k")):
        images, labels = pictures(400, seed)
        for name, array in (("images-idx3", images.reshape(-1, 28, 28)), ("labels-idx1", labels)):
            raw = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()
            file = folder / f"{part}-{name}-ubyte{'.gz' if zipped else ''}"
            file.write_bytes(gzip.compress(raw) if zipped else raw)


def network(layers, params, r):
    """Return the r-th network of a stack as modules."""
    made = []
    for i, layer in enumerate(layers):
        weight, bias = params[2 * i][r], params[2 * i + 1][r, 0]
        if layer.kernel:
            channels = layer.inputs // layer.kernel**2
            module = nn.Conv2d(channels, layer.outputs, layer.kernel, stride=2)
            weight = weight.T.reshape(module.weight.shape)
        else:
            module = nn.Linear(layer.inputs, layer.outputs)
            weight = weight.T
            if i and layers[i - 1].kernel:
                made.append(nn.Flatten())
        module.double()
        with torch.no_grad():
            module.weight.copy_(weight)
            module.bias.copy_(bias)
        made += [module, nn.ReLU()]
    return nn.Sequential(*made[:-1])


def shaped(x, layers):
    """Return rows as the first layer wants them."""
    return x.view(len(x), 1, 28, 28) if layers[0].kernel else x


def literal(stream, layers, start, run, how, picked):
    """Train one run by the public parts of forgetless.torch; ``picked``: the rows of every task and step.

    Returns the network with the weights that are evaluated.
    """
    spec, method, k = stream.spec, run.method, stream.spec.k
    plan = method.plan(run.values, k)
    net = network(layers, start, 0)
    likelihood = "categorical" if spec.loss == "ce" else "gaussian"
    importances = {"fisher": partial(flt.fisher, likelihood=likelihood), "mas": flt.mas, "si": flt.si(how.damping)}
    proximal = flt.Proximal(list(plan.strengths), importances.get(method.metric))
    mechanisms = [proximal, flt.StepSize(list(plan.rates))]
    inverse = "inverse" in (method.merge, method.schedule if method.knob == "merge" else None)
    if inverse:
        mechanisms.append(flt.Merge(run.values["merge"]))
    elif method.read == "moving":
        mechanisms.append(flt.Average(plan.horizon * how.steps))
    continual = flt.Continual(net, mechanisms)
    x_all = networks.scaled(stream.x["train"], torch.float64).flatten(0, 2)
    y_all = stream.y["train"].flatten()
    ends = []
    for t in range(1, k + 1):
        optimizer = (torch.optim.Adam if spec.optimizer == "adam" else torch.optim.SGD)(net.parameters(), lr=spec.lr)
        before = copy.deepcopy(net)
        for rows in picked[t - 1][: max(1, round(how.steps * min(1.0, plan.steps[t - 1])))]:
            x, y = shaped(x_all[rows], layers), y_all[rows]
            optimizer.zero_grad()
            loss = _loss(spec, net(x), y)
            if t > 1 and plan.distillation[t - 1]:
                loss = loss + plan.distillation[t - 1] * _distance(spec, net(x), before(x).detach())
            loss.backward()
            optimizer.step()
        if not inverse:  # merging by another schedule is written out
            with torch.no_grad():
                for p, old in zip(net.parameters(), before.parameters(), strict=True):
                    p.copy_(old + plan.merges[t - 1] * (p - old))
        task = int(stream.order[run.seed, t - 1])
        x = networks.scaled(stream.x["train"][run.seed, task], torch.float64)[: how.importance_samples]
        continual.next_task(shaped(x, layers))
        ends.append([p.detach().clone() for p in net.parameters()])
    with continual.evaluation():
        evaluated = copy.deepcopy(net)
    if method.read == "mean":  # of the ends of tasks
        with torch.no_grad():
            for p, *values in zip(evaluated.parameters(), *ends, strict=True):
                p.copy_(sum(values) / k)
    return evaluated


def _loss(spec, out, y):
    if spec.loss == "ce":
        return functional.cross_entropy(out, y)
    target = y[:, None].double() if spec.regression else functional.one_hot(y, spec.outputs).double()
    return 0.5 * (out - target).square().sum(1).mean()


def _distance(spec, out, old):
    """Distillation as Li & Hoiem write it: 4 times the cross-entropy at temperature 2, up to a constant."""
    if spec.loss == "ce":
        return -4.0 * ((old / 2).softmax(1) * (out / 2).log_softmax(1)).sum(1).mean()
    return 0.5 * (out - old).square().sum(1).mean()
