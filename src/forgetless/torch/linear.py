"""Linearized networks: linear tasks whose features are the Jacobian at the present weights."""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from forgetless.torch._per_sample import trained
from forgetless.torch.models import inspected, unwrapped


class Linearized:
    """f(x; w₀ + u) ≈ f(x; w₀) + J(x) u, J the Jacobian by the trained parameters: what
    ``linearize`` returns.

    A task (x, y) of the network is the linear task (J(x), y − f(x; w₀)) in u, a vector of
    ``n_parameters`` numbers, for ``fl.step``, ``fl.ContinualRidge`` and all the rest.

    Attributes
    ----------
    n_parameters : int
        Length of u: all trained parameters, flattened and joined in the order of
        ``named_parameters``.
    """

    def __init__(self, model: Any) -> None:
        self._model = unwrapped(model)
        self._params = {name: p.detach().clone() for name, p in trained(self._model).items()}
        if not self._params:
            raise ValueError(
                "model has no parameter with requires_grad, so there is nothing to linearize by"
            )
        others = (*self._model.named_parameters(), *self._model.named_buffers())
        self._rest = {name: t.detach().clone() for name, t in others if name not in self._params}
        self._like = next(iter(self._params.values()))
        self.n_parameters = sum(p.numel() for p in self._params.values())

    def outputs(self, x: Any) -> NDArray[np.float64]:
        """Return f(x; w₀), flattened: one number for every sample and output, samples first."""
        with inspected(self._model), torch.no_grad():
            return _array(self._at(x)(self._params))

    def residual(self, x: Any, y: Any) -> NDArray[np.float64]:
        """Return y − f(x; w₀), flattened: the targets of the linear task."""
        outputs = self.outputs(x)
        targets = (
            _array(y) if isinstance(y, torch.Tensor) else np.asarray(y, dtype=np.float64).ravel()
        )
        if targets.shape != outputs.shape:
            raise ValueError(
                f"y has {targets.size} numbers, the outputs {outputs.size}; give one for every"
                " output"
            )
        return targets - outputs

    def features(self, x: Any) -> NDArray[np.float64]:
        """Return J(x) as an array (samples × outputs, n_parameters)."""
        return np.asarray(self._operator(x).adjoint().matmat(np.eye(self.outputs(x).size))).T

    def _operator(self, x: Any) -> LinearOperator:
        """Return J(x) as products only: no matrix is formed."""
        function, params = self._at(x), self._params
        with inspected(self._model):
            outputs, vjp = torch.func.vjp(function, params)

        def product(u: Any) -> NDArray[np.float64]:
            with inspected(self._model), warnings.catch_warnings():
                # Of torch's own code, which it compiles when forward mode is first used.
                warnings.filterwarnings(
                    "ignore", ".*torch.jit.script. is deprecated", DeprecationWarning
                )
                return _array(torch.func.jvp(function, (params,), (_split(u, params),))[1])

        def adjoint_product(v: Any) -> NDArray[np.float64]:
            vector = torch.from_numpy(np.ascontiguousarray(np.ravel(v))).to(
                outputs.device, outputs.dtype
            )
            (gradients,) = vjp(vector)
            return np.concatenate([_array(gradients[name]) for name in params])

        shape = (outputs.numel(), self.n_parameters)
        return LinearOperator(shape, product, adjoint_product, dtype=np.float64)

    def departure(self, model: Any, x: Any) -> float:
        """Return how far a model with other weights has departed: ‖f − f₀ − Ju‖/‖f − f₀‖ on the
        rows x, u its change.

        0: the outputs changed as predicted; 1: the prediction is as wrong as none.
        """
        trained_now = dict(unwrapped(model).named_parameters())
        u = np.concatenate([_array(trained_now[name] - p) for name, p in self._params.items()])
        with inspected(unwrapped(model)), torch.no_grad():
            now = _array(unwrapped(model)(x.to(self._like.device)))
        change = now - self.outputs(x)
        size = float(np.linalg.norm(change))
        return float(np.linalg.norm(change - self._operator(x) @ u)) / size if size else 0.0

    def parameters(self, u: Any) -> dict[str, Any]:
        """Return w₀ + u as tensors by name, for ``model.load_state_dict(…, strict=False)``."""
        return {
            name: self._params[name] + change for name, change in _split(u, self._params).items()
        }

    def _at(self, x: Any) -> Any:
        x = x.to(self._like.device)

        def outputs(params: Any) -> Any:
            return torch.func.functional_call(self._model, {**params, **self._rest}, (x,)).flatten()

        return outputs


def linearize(model: Any) -> Linearized:
    """Return the linearization of a model at its present weights, in evaluation mode.

    Examples
    --------
    A network that is linear already is its own linearization:

    >>> import numpy as np, torch
    >>> import forgetless as fl, forgetless.torch as flt
    >>> net = torch.nn.Linear(2, 1, bias=False).double()
    >>> linear = flt.linearize(net)
    >>> x, y = torch.tensor([[1.0, 2.0]]).double(), torch.tensor([[3.0]]).double()
    >>> linear.features(x).tolist()
    [[1.0, 2.0]]
    >>> u = fl.step(np.zeros(linear.n_parameters), (linear.features(x), linear.residual(x, y)),
    ...     fl.Projection())
    >>> _ = net.load_state_dict(linear.parameters(u), strict=False)
    >>> round(net(x).item(), 9)
    3.0

    References
    ----------
    Jacot, Gabriel & Hongler (2018): wide networks stay close to it.
    """
    return Linearized(model)


def _array(tensor: Any) -> NDArray[np.float64]:
    return np.asarray(tensor.detach().cpu().double().numpy().ravel())


def _split(u: Any, params: dict[str, Any]) -> dict[str, Any]:
    flat = torch.from_numpy(np.ascontiguousarray(np.ravel(u), dtype=np.float64))
    sizes = [p.numel() for p in params.values()]
    if len(flat) != sum(sizes):
        raise ValueError(f"u must have {sum(sizes)} numbers, got {len(flat)}")
    parts = dict(zip(params, flat.split(sizes), strict=True))
    return {name: parts[name].view(p.shape).to(p.device, p.dtype) for name, p in params.items()}
