"""Linear models trained to convergence, and what the equation says."""

import numpy as np
import torch
from torch import nn

import forgetless as fl
import forgetless.torch as flt
from support.deep.networks import weights

D, N, K = 5, 3, 3


def linear_tasks(rng):
    """Tasks with singular values about 1, which gradient steps solve quickly."""
    made = []
    for _ in range(K):
        U, _, V = np.linalg.svd(rng.standard_normal((N, D)), full_matrices=False)
        made.append((U @ np.diag(rng.uniform(0.7, 1.3, N)) @ V, rng.standard_normal(N)))
    return made


def literal(tasks, lambdas, omega, decay=0.0):
    """Every task by fl.step in coordinates √Ω w, where the weighted penalty is the plain one."""
    w, root = np.zeros(D), np.sqrt(omega)
    for (X, y), strength in zip(tasks, lambdas, strict=True):
        if decay:  # ridge towards 0 as further rows
            X, y = np.vstack([X, np.sqrt(decay) * np.eye(D)]), np.concatenate([y, np.zeros(D)])
        w = fl.step(root * w, (X / root, y), fl.Ridge(float(strength))) / root
    return w


def converged(tasks, make, proximal):
    """Train to convergence: two groups with other rates, accumulated gradients, a new optimizer for every task."""
    net = nn.ModuleList([nn.Linear(2, 1, bias=False), nn.Linear(3, 1, bias=False)]).double()
    for p in net.parameters():
        nn.init.zeros_(p)
    continual = flt.Continual(net, [proximal], pretrained=tasks)
    for X, y in tasks:
        (a, b), target = torch.tensor(X).split([2, 3], 1), torch.tensor(y)[:, None]
        optimizer = make([{"params": net[0].parameters()}, {"params": net[1].parameters()}])
        optimizer.param_groups[1]["lr"] = optimizer.param_groups[1]["lr"] * 0.7
        for _ in range(450):
            optimizer.zero_grad()
            for rows in (slice(0, 1), slice(1, 3)):
                ((net[0](a) + net[1](b) - target)[rows].square().sum() / 2).backward()
            optimizer.step()
        continual.next_task(tasks)
    return weights(net).numpy()
