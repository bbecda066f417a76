"""Ensembles: laws of tasks drawn anew at every step, with ``expect``, ``simulate`` and
``optimal_schedule``.

The optimal ridge coefficients of one teacher: let e = E‖w_{t−1} − v‖². Along a direction with
eigenvalue ξ the error after the step, (1 − φ)²e/d + φ²σ²/ξ, is least at φ = ξ/(ξ + dσ²/e): no
spectral filter is better than a ridge step with λ_t = dσ²/e. (A fresh task is rotation invariant,
so that every direction has the same part e/d of the error, whatever was learned before.) At this φ
the error is (1 − φ)e/d along each direction and (1 − a(λ_t))e in all, a being the mean of φ over
all d directions. So 1/λ_{t+1} = (1 − a(λ_t))/λ_t, which is the recursion of ``schedules.steady``.
The least error grows with e: nothing is gained by a larger error before, and this is optimal for
every number of tasks at once. For a teacher that walks by q, e + q² takes the place of e.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize_scalar

from forgetless import _validate as validate
from forgetless._linalg import spectrum
from forgetless._validate import Floats
from forgetless.advice.optimal import OptimalSchedule
from forgetless.ensembles import teachers
from forgetless.ensembles._law import METRICS, Law, Problem, second_moments, simulated
from forgetless.ensembles.spectra import Spectrum, wishart
from forgetless.ensembles.teachers import Exchangeable, Normal, Teachers, Walk, matrix, one
from forgetless.filters import Filter, Projection, Ridge
from forgetless.lab.results import Curves
from forgetless.metrics import quantity
from forgetless.orderings.base import shared_seed
from forgetless.schedules import steady
from forgetless.schedules.named import Schedules

__all__ = ["Ensemble", "Gaussian", "Rotated", "Teachers", "teachers"]

_EQUAL = 1e-12
"""Relative difference of losses that is rounding."""


class Ensemble(Law):
    """A law of fresh random tasks that no rotation of the features changes.

    Metrics are ``average_loss``, the mean over all k tasks of ½‖Xw − y‖² on fresh rows of them,
    their noise included;
    ``next_loss``, that on the next task; ``distance``, E‖w − v‖² from the teacher of the last task;
    and ``task_losses`` and ``task_distances``, which have them for every task.
    """

    def expect(
        self,
        schedule: Schedules,
        k: int,
        *,
        metrics: Any = "average_loss",
        record: Any = "last",
    ) -> Curves:
        """Return the expected metrics of k steps, exact up to rounding.

        Parameters
        ----------
        schedule : schedule, filter, name or number; or a list or a dict of these
            As in ``fl.expect``.
        k : int
            Number of steps.
        metrics : name or names, default "average_loss"
        record : "last", "log", "all" or steps in 0..k, default "last"

        Examples
        --------
        Without regularization every task halves the squared distance to the teacher, if it has half
        as many rows as features (Lin et al., 2023):

        >>> import forgetless as fl
        >>> tasks = fl.ensembles.Gaussian(n_features=10, n_rows=5)
        >>> tasks.expect("none", k=3, metrics="distance", record="all").distance.tolist()
        [0.5, 0.25, 0.125]
        """
        problem = Problem(self, schedule, k, metrics, record)
        if "weights" in problem.metrics:
            raise ValueError("metrics of expect are numbers, got 'weights'; use simulate")
        curves: dict[str, list[Any]] = {name: [] for name in problem.metrics}
        steps = problem.steps
        for filter_ in problem.filters:
            # The loss on the next task after the last step is that of the teacher of task k + 1.
            every = second_moments(self, self.moments(filter_), problem.k + 1, steps[-1])
            for name, curve in curves.items():
                curve.append([self.evaluate(name, k, t, every[t].__getitem__) for t in steps])
        values = {name: np.array(curve) for name, curve in curves.items()}
        # A step adds an error below 2e-15, and all else 1e-14: measured against closed forms.
        errors = dict.fromkeys(values, 1e-14 + 2e-15 * problem.k)
        return Curves.of(values, steps, problem.labels, estimate=lambda: errors)

    def simulate(
        self,
        schedule: Schedules,
        k: int,
        *,
        n_trials: int = 1,
        seed: Any = None,
        metrics: Any = METRICS[:3],
        record: Any = "log",
    ) -> Curves:
        """Return the metrics of independent trials, each with fresh tasks and teachers.

        Several schedules learn the same tasks. ``metrics`` may hold "weights".

        Parameters
        ----------
        schedule, k, metrics, record
            As in ``expect``.
        n_trials : int, default 1
            Trial i gives the same numbers whatever ``n_trials`` is.
        seed : int, SeedSequence, Generator or None
            As in ``fl.simulate``.

        Examples
        --------
        >>> import forgetless as fl
        >>> tasks = fl.ensembles.Gaussian(n_features=10, n_rows=5, noise=0.1)
        >>> tasks.simulate(fl.Ridge(1.0), k=20, n_trials=50, seed=0).distance.shape
        (50, 16)
        """
        problem = Problem(self, schedule, k, metrics, record)
        n_trials = validate.integer("n_trials", n_trials, 1, "ask for at least one run")
        values = simulated(problem, n_trials, shared_seed(seed))
        return Curves.of(values, problem.steps, problem.labels, n_trials)

    def optimal_schedule(
        self,
        k: int,
        *,
        objective: Literal["average_loss", "next_loss", "distance"] = "average_loss",
    ) -> OptimalSchedule:
        """Return the ridge coefficients λ_1..λ_k of least expected objective after k steps.

        They are ``fl.schedules.steady``, the best of all spectral filters, and are known for one
        teacher, or one that walks and an objective other than the average loss.

        Examples
        --------
        >>> import forgetless as fl
        >>> tasks = fl.ensembles.Gaussian(n_features=60, n_rows=12, noise=0.2**0.5)
        >>> best = tasks.optimal_schedule(k=4)
        >>> [round(strength, 2) for strength in best.coefficients]
        [12.0, 14.3, 16.94, 19.92]
        """
        name = quantity("objective", objective, METRICS[:3])

        def loss(filter_: Filter) -> float:
            return self.expect(filter_, k, metrics=name).values[name].item()

        def of_constant(logarithm: float) -> float:
            return loss(Ridge(math.exp(logarithm)))

        steps = _steps(self.teachers, name)
        solved = loss(Projection())
        square = self.radius**2 or 1.0
        # From as good as no regularization to as good as no learning. The loss had one minimum in
        # every case that was tried; the grid finds the lower of two that are far apart.
        low = math.log(1e-15 * square)
        # no mutant: a narrower or coarser grid finds the same minimum
        grid = np.arange(low, math.log(1e9 * k * square), 2.0)
        near = min(grid, key=of_constant)
        found = minimize_scalar(
            of_constant, bounds=(near - 2.0, near + 2.0), options={"xatol": 1e-7}
        )
        constant: Filter = Ridge(math.exp(found.x))
        if solved <= (1.0 + _EQUAL) * found.fun:
            constant = Projection()
        best_of_all = steady(self, self.noise, *steps)(k, self.radius)
        least = loss(constant)
        return OptimalSchedule(
            coefficients=tuple(np.ravel(best_of_all.strength()).tolist()),
            objective=name,
            # Rounding may make the constant better.
            loss=min(loss(best_of_all), least),
            best_constant=constant,
            best_constant_loss=least,
            stationarity=0.0,
            start="closed form",
        )

    def __post_init__(self) -> None:
        for name in ("n_features", "n_rows"):
            validate.integer(name, getattr(self, name), 1, "a task is not empty")
        validate.number("noise", self.noise, "it is the size of label noise; 0 for none")
        if not isinstance(self.teachers, Teachers):
            raise TypeError(
                "teachers must be one of fl.ensembles.teachers, such as teachers.one(), got"
                f" {self.teachers!r}"
            )
        self.teachers.check(self.n_features)


@dataclass(frozen=True, eq=False)
class Gaussian(Ensemble):
    """Fresh tasks with independent standard Gaussian entries: the setting of most papers.

    Parameters
    ----------
    n_features, n_rows : int
        d and n, the same for all tasks.
    noise : float, default 0
        Standard deviation σ of the noise of labels.
    teachers : Teachers, default one teacher of norm 1
        From ``fl.ensembles.teachers``.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.ensembles.Gaussian(n_features=10, n_rows=5)
    >>> tasks.expect({"none": "none", "λ = 2": 2.0}, k=3).average_loss.round(3).ravel().tolist()
    [0.312, 0.415]
    """

    n_features: int
    n_rows: int
    noise: float = 0.0
    teachers: Teachers = one()  # noqa: RUF009 - it is frozen

    @property
    def radius(self) -> float:
        """√n + √d, which the mean norm of X does not exceed (Davidson and Szarek, 2001)."""
        return math.sqrt(self.n_rows) + math.sqrt(self.n_features)

    @property
    def spectrum(self) -> Spectrum:
        return wishart(self.n_rows, self.n_features)

    def sample(self, normal: Normal) -> Floats:
        return normal(self.n_rows, self.n_features)


@dataclass(frozen=True, eq=False)
class Rotated(Ensemble):
    """Fresh tasks that are one matrix rotated at random: any spectrum, such as that of real rows.

    Parameters
    ----------
    X : array of shape (n, d)
        Every task is X Q with an independent uniformly random orthogonal Q.
    noise, teachers
        As in ``Gaussian``.

    Examples
    --------
    >>> import forgetless as fl
    >>> tasks = fl.ensembles.Rotated([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> tasks.expect(fl.Ridge(1.0), k=1, metrics="distance").distance.round(12).tolist()
    [0.5]
    """

    X: Floats = field(repr=False)
    noise: float = 0.0
    teachers: Teachers = one()  # noqa: RUF009 - it is frozen
    n_rows: int = field(init=False)
    n_features: int = field(init=False)

    def __post_init__(self) -> None:
        X = matrix("X", self.X)
        n, d = X.shape
        vars(self).update(X=X, n_rows=n, n_features=d)
        super().__post_init__()

    @cached_property
    def spectrum(self) -> Spectrum:
        values = spectrum(self.X)[1]
        mean_inverse = float(np.sum(values**-2.0))
        return Spectrum(values, np.ones_like(values), mean_inverse)

    def sample(self, normal: Normal) -> Floats:
        Q, R = np.linalg.qr(normal(self.n_features, self.n_features))
        # With the signs of the diagonal of R, for every trial t, Q is uniform (Mezzadri, 2007).
        signs = np.sign(np.einsum("tii->ti", R))
        uniform = Q * signs[:, None, :]
        return np.asarray(self.X @ uniform)


def _steps(teachers: Teachers, name: str) -> tuple[float, float]:
    """Return the walk and the norm of the teacher, if one alone counts for the objective."""
    if isinstance(teachers, Walk) and (name != "average_loss" or not teachers.step):
        return teachers.step, teachers.norm
    if isinstance(teachers, Exchangeable) and (
        teachers.similarity == 1 or {*teachers.turns} == {1}
    ):
        return 0.0, teachers.norm
    raise ValueError(
        f"the optimal schedule for {name} has a closed form for one teacher, or for one that walks"
        f" and objective next_loss or distance, not for {teachers!r}; minimise expect(…)"
    )
