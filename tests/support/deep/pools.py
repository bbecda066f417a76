"""Small data for the tests of the benchmark, and its training written as anybody would: one network, plain loops."""

import gzip

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
    """Train one run by the public parts of forgetless.torch; ``picked``: the rows of every task and step."""
    spec, method, k = stream.spec, run.method, stream.spec.k
    net = network(layers, start, 0)
    adam = spec.optimizer == "adam"
    optimizer = (torch.optim.Adam if adam else torch.optim.SGD)(net.parameters(), lr=spec.lr)
    anchor = flt.Anchor(net, optimizer, list(method.strengths(run.c, k)), k)
    path = flt.PathIntegral(net, optimizer, damping=how.damping)
    x_all = networks.scaled(stream.x["train"], torch.float64).flatten(0, 2)
    y_all = stream.y["train"].flatten()
    scale = None
    for t in range(1, k + 1):
        optimizer.state.clear()
        share, steps = method.fractions(run.c, k)[t - 1], how.steps
        if method.knob == "lr":
            optimizer.param_groups[0]["lr"] = spec.lr * share
        if method.knob == "steps":
            steps = flt.Budget([min(1.0, share)], 1, n_steps=how.steps).n_steps[0]
        for rows in picked[t - 1][:steps]:
            x, y = shaped(x_all[rows], layers), y_all[rows]
            optimizer.zero_grad()
            if spec.loss == "ce":
                loss = functional.cross_entropy(net(x), y)
            else:
                out = net(x)
                target = y[:, None].double() if spec.regression else functional.one_hot(y, spec.outputs).double()
                loss = 0.5 * (out - target).square().sum(1).mean()
            loss.backward()
            optimizer.step()
        task = int(stream.order[run.seed, t - 1])
        x = networks.scaled(stream.x["train"][run.seed, task], torch.float64)[: how.importance_samples]
        x = shaped(x, layers)
        fresh = None
        if method.metric == "fisher":
            fresh = flt.fisher(net, x, likelihood="categorical" if spec.loss == "ce" else "gaussian")
        elif method.metric == "mas":
            fresh = flt.mas(net, x)
        elif method.metric == "si":
            fresh = path.importance()
        if fresh is not None:
            if scale is None:
                scale = sum(f.numel() for f in fresh.values()) / sum(f.sum() for f in fresh.values())
            fresh = {name: scale * f for name, f in fresh.items()}
        anchor.next_task(fresh)
    return net
