"""The worst case over teachers: the unit solution for which a random ordering does worst on average."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._base.arrays import Array, Floats, from_numpy, namespace_of, to_numpy
from forgetless.engines._subsets import program
from forgetless.engines.draws import IndependentRun, Method, cheapest, compiled_steps
from forgetless.engines.moments import Moments, Operator, average_form, linear_moments, repeated, symmetrized
from forgetless.engines.powers import Spectral, Squaring, lanczos_power
from forgetless.engines.problem import Problem
from forgetless.errors import NoExactLawError
from forgetless.filters import Filter
from forgetless.orderings import Cyclic, Ordering, Reshuffled, WithoutReplacement, WithReplacement
from forgetless.orderings import Sequence as Sequence_
from forgetless.schedules import Schedule
from forgetless.tasks import TaskCollection


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The largest expected average loss over all teachers of unit norm, and a teacher that attains it.

    Attributes
    ----------
    loss : float, or array with the schedules and then the steps along its axes
        For data y_m = X_m w⋆, ‖w⋆‖ = 1, learned from the origin; for ‖w₀ − w⋆‖ = D it scales with D².
    teacher : array of shape loss.shape + (d,)
    steps : array of shape (n_steps,)
    method : str
        How the values were computed.
    error : float
        Estimated relative error beyond rounding; 0 where there is none.
    """

    loss: Any
    teacher: Array = field(repr=False)
    steps: NDArray[np.int64] = field(repr=False)
    method: str
    error: float


def worst_case(
    tasks: TaskCollection,
    schedule: Schedule | Filter | Sequence[Schedule | Filter],
    k: int,
    *,
    ordering: Ordering | None = None,
    record: Any = "last",
    method: Method = "auto",
) -> WorstCase:
    """Return the worst expected average loss over unit teachers after k steps.

    The targets of ``tasks`` do not matter: the data are X_m w⋆, and the expectation is a quadratic form ½ w⋆ᵀ V w⋆,
    V being the mean of X_mᵀX_m carried backwards through the steps. Its largest eigenvalue gives the answer.

    Parameters
    ----------
    tasks : TaskCollection
    schedule : schedule, filter, or a list of these
    k : int
    ordering : Ordering, default ``WithReplacement()``
    record : "last", "log", "all" or steps in 0..k, default "last"
        At which steps. A fixed filter gives the whole curve at little more cost; a schedule that varies is followed
        backwards anew from each recorded step.
    method : "auto", "steps", "dense" or "lanczos"
        As in ``expect``.

    Returns
    -------
    WorstCase
        ``.loss`` is a float for one schedule and ``record="last"``.

    Examples
    --------
    Two unit tasks at 45 degrees, at the best fixed coefficient for two steps:

    >>> import numpy as np
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [0.0]), ([[np.sqrt(0.5), np.sqrt(0.5)]], [0.0])])
    >>> round(fl.worst_case(tasks, fl.Ridge(1.299), k=2).loss, 4)
    0.0692

    References
    ----------
    Levinstein et al. (2025), Appendix A, for a fixed coefficient with replacement.
    """
    problem = Problem.of(tasks, schedule, k, ordering, record)
    if method not in ("auto", "steps", "dense", "lanczos"):
        raise ValueError(f'method must be "auto", "steps", "dense" or "lanczos", got {method!r}')
    moments = linear_moments(tasks)
    forms, used, error = _forms(problem, moments, method)
    losses, teachers = _largest(forms, tasks)
    if isinstance(record, str) and record == "last":
        losses, teachers = losses[:, 0], teachers[:, 0, :]
    if not problem.grid:
        losses, teachers = losses[0], teachers[0]
    like = tasks[0].X
    loss = float(losses) if losses.ndim == 0 else from_numpy(losses, like=like)
    return WorstCase(loss, from_numpy(teachers, like=like), problem.steps, used, error)


Forms = list[list[Array]]
"""For each schedule and recorded step the form V, of shape (q, q)."""


def _forms(problem: Problem, moments: Moments, method: Method) -> tuple[Forms, str, float]:
    law = problem.ordering
    if isinstance(law, WithReplacement):
        return independent_forms(problem, moments, method)
    if method in ("dense", "lanczos"):
        raise ValueError(f"method={method!r} needs draws with replacement; leave it at 'auto'")
    if isinstance(law, WithoutReplacement | Reshuffled):
        return _over_subsets(problem, moments), "subsets", 0.0
    if isinstance(law, Cyclic | Sequence_):
        return _along_one_order(problem, moments), "one order", 0.0
    raise NoExactLawError(f"ordering {law!r} has no exact worst case here; use simulate for single teachers")


def independent_forms(problem: Problem, moments: Moments, method: Method = "auto") -> tuple[Forms, str, float]:
    """Return the average loss after each recorded step as a form of what came before the first, for random draws.

    The loss is ½⟨V, S⟩ plus the mean floor for every moment matrix S at the start. The moments may be those of tasks
    that no model fits; the form of the linear maps is then the block of V without the extra coordinates.
    """
    operator, form = Operator(moments, problem.probabilities), average_form(moments)
    n_problems, steps = len(problem.filters), problem.steps.tolist()
    if not problem.constant:
        if method in ("dense", "lanczos"):
            raise ValueError(f"method={method!r} needs fixed filters; use method='steps'")
        curves = [_backwards(problem, moments, form, step) for step in steps]
        return [[curve[:, :, b] for curve in curves] for b in range(n_problems)], "steps", 0.0
    if method == "auto":
        method = cheapest(problem, moments.size, moments.realizable)
    shares = from_numpy(problem.shares(0, 1)[:, 0, :], like=form)
    if method == "dense":
        size, self_adjoint = moments.size, moments.realizable
        dense = Spectral(operator, size, shares) if self_adjoint else Squaring(operator, size, shares, adjoint=True)
        curves = [dense.powers(form, step) for step in steps]
        return [[curve[:, :, b] for curve in curves] for b in range(n_problems)], "dense", 1e-15 * problem.k
    if method == "lanczos":
        return _by_lanczos(operator, form, shares, steps)
    xp = namespace_of(form)
    V = repeated(form, n_problems)
    found, done = [], 0
    for step in steps:
        for _ in range(step - done):
            V -= operator.decrease_adjoint(V, shares)
        found.append(xp.asarray(V, copy=True))
        done = step
    return [[curve[:, :, b] for curve in found] for b in range(n_problems)], "steps", 0.0


def _by_lanczos(operator: Operator, form: Array, shares: Array, steps: list[int]) -> tuple[Forms, str, float]:
    forms, worst = [], 0.0
    for b in range(shares.shape[1]):
        row = []
        for step in steps:
            V, error = form[:, :, None], 0.0
            if step:
                V, error = lanczos_power(operator, V, shares[:, b : b + 1], step, 1e-12)
            row.append(V[:, :, 0])
            worst = max(worst, error)
        forms.append(row)
    return forms, "lanczos", worst


def _backwards(problem: Problem, moments: Moments, form: Array, last: int) -> Array:
    """Return V of shape (Q, Q, B) carried from step ``last`` back to the start."""
    # The adjoint of I − Lᵀφ R is the same with L and R exchanged, so the forward run serves, with time reversed.
    swapped = Moments(moments.tasks, moments.right, moments.left, form)
    lanes = compiled_steps(problem, moments)
    run = IndependentRun(swapped, problem.probabilities, len(problem.filters), path=False, drift=False, lanes=lanes)
    for stop in range(last, 0, -problem.steps_at_once):
        shares = problem.shares(max(0, stop - problem.steps_at_once), stop)
        run.advance(np.ascontiguousarray(shares[:, ::-1, :]))
    return run.S


def _over_subsets(problem: Problem, moments: Moments) -> Forms:
    """Carry the form backwards over the sets of tasks still to come, which is the forward program read backwards."""
    tasks, form = problem.tasks, average_form(moments)
    M = tasks.n_tasks
    subsets = program(tasks, moments, path=False, drift=False)
    subsets.check_size(int(problem.steps[-1]))
    forms = []
    for b in range(len(problem.filters)):
        row = []
        for step in problem.steps.tolist():
            V, left = form, step
            while left:
                inside = (left - 1) % M + 1  # steps of the epoch that ends here
                level = subsets.uniform(M - inside, comb(M, M - inside), V)
                for size in range(M - inside, M):
                    t = left - inside + M - size
                    level = subsets.raised(level, problem.shares_of(b, t - 1, t)[0])
                V, left = subsets.full(level), left - inside
            row.append(V)
        forms.append(row)
    return forms


def _along_one_order(problem: Problem, moments: Moments) -> Forms:
    """Follow the product Z of all maps so far: the form after t steps is Zᵀ H Z."""
    form, forms = average_form(moments), []
    for b in range(len(problem.filters)):
        product, done, line = _Product(problem, moments, b), 0, []
        for step in problem.steps.tolist():
            product.advance(done, step)
            done = step
            line.append(symmetrized(product.Z.T @ form @ product.Z))
        forms.append(line)
    return forms


class _Product:
    """The product of the maps of one order, as a matrix (q, q)."""

    def __init__(self, problem: Problem, moments: Moments, b: int) -> None:
        self.problem, self.left, self.b = problem, moments.left, b
        xp = namespace_of(moments.left)
        self.Z = xp.eye(moments.size, dtype=moments.left.dtype, device=moments.left.device)
        self.rows = list(itertools.pairwise(problem.tasks.offsets.tolist()))
        self.cycle = len(self.rows) if isinstance(problem.ordering, Cyclic) else 0
        self.indices = () if self.cycle else problem.ordering.sample(len(self.rows), problem.k).tolist()

    def advance(self, first: int, last: int) -> None:
        """Multiply by the maps of steps first + 1..last; whole cycles of a fixed filter by their power."""
        M = self.cycle
        if M and self.problem.filters[self.b].horizon is None and last - first > 4 * M:
            start = -(-first // M) * M
            self._follow(first, start)
            before, xp = self.Z, namespace_of(self.Z)
            self.Z = xp.eye(before.shape[0], dtype=before.dtype, device=before.device)
            self._follow(0, M)
            n_cycles, square = (last - start) // M, self.Z
            self.Z = before
            while n_cycles:
                if n_cycles & 1:
                    self.Z = square @ self.Z
                square, n_cycles = square @ square, n_cycles >> 1
            first = last - (last - start) % M
        self._follow(first, last)

    def _follow(self, first: int, last: int) -> None:
        for t in range(first, last):
            low, high = self.rows[t % self.cycle if self.cycle else self.indices[t]]
            D = self.left[low:high, :]
            phi = from_numpy(np.ascontiguousarray(self.problem.shares_of(self.b, t, t + 1)[0, low:high]), like=D)
            self.Z = self.Z - (D.T * phi) @ (D @ self.Z)


def _largest(forms: Forms, tasks: TaskCollection) -> tuple[Floats, Floats]:
    """Return ½λ_max and its eigenvector in feature coordinates for every form."""
    basis = None if tasks.span is None else to_numpy(tasks.span)
    losses = np.zeros((len(forms), len(forms[0])))
    teachers = np.zeros((*losses.shape, tasks.n_features))
    for b, row in enumerate(forms):
        for i, V in enumerate(row):
            if V.shape[0] == 0:
                teachers[b, i, 0] = 1.0  # no task moves or measures anything: every teacher attains 0
                continue
            values, vectors = np.linalg.eigh(to_numpy(V))
            vector = vectors[:, -1] if basis is None else basis @ vectors[:, -1]
            losses[b, i] = 0.5 * max(0.0, float(values[-1]))
            teachers[b, i] = vector * (1.0 if vector[np.argmax(np.abs(vector))] > 0 else -1.0)
    return losses, teachers
