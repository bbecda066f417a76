"""A network of PyTorch as a linear task of forgetless, by its Jacobian at the present weights.

f(x; w₀ + u) ≈ f(x; w₀) + J(x)u. A task (x, y) of the network is the linear task (J(x), y − f(x;
w₀)) in u, for which everything in forgetless is exact. How well a network follows its linearization
depends on its width: ``python benchmarks/linearized.py`` measures it.
"""

import numpy as np
import torch

import forgetless as fl


def linear_task(model, x, y):
    """Return (J(x), y − f(x)): features of all trained parameters, and targets, as arrays."""
    params = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def outputs(params):
        return torch.func.functional_call(model, params, (x,)).flatten()

    jacobian = torch.func.jacrev(outputs)(params)
    rows = torch.cat([each.flatten(1) for each in jacobian.values()], 1)
    return rows.double().numpy(), (y.flatten() - outputs(params)).double().numpy()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(10, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    model = model.double().eval()
    data = [(torch.randn(8, 10).double(), torch.randn(8).double()) for _ in range(4)]
    tasks = fl.TaskCollection([linear_task(model, x, y) for x, y in data])
    for name in ("none", "fixed", "increasing"):
        loss = fl.expect(tasks, name, k=40, record=[4, 40]).average_loss
        print(f"{name:<12} expected loss after 4 and 40 steps: {loss[0]:.4f} {loss[1]:.4f}")
    # One task learned by the equation, written back into the network.
    features, targets = linear_task(model, *data[0])
    u = fl.step(np.zeros(features.shape[1]), (features, targets), fl.Ridge(0.01))
    vector = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    torch.nn.utils.vector_to_parameters(vector + torch.from_numpy(u), model.parameters())
    before = 0.5 * float(np.mean(targets**2))
    after = 0.5 * float(np.mean(linear_task(model, *data[0])[1] ** 2))
    print(f"loss of the network on the first task: {before:.3f} before, {after:.3f} after")
