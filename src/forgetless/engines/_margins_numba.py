"""The compiled loop over proximal steps of many runs; equal to ``_margin_trials.ArrayRun`` up to
rounding.

Smooth losses are minimised by Newton's method in the coordinates of the smaller side of a task, the
hinge and the projection by sweeps over coordinates and solutions on faces: the algorithms of
``solvers._newton`` and ``solvers._box``, without their bounds.
"""

from functools import cached_property
from typing import Any

import numpy as np

from forgetless._core.arrays import Floats
from forgetless._core.compiled import jit, n_threads, spread
from forgetless.engines._margin_trials import MarginRun
from forgetless.orderings import Indices

_CODES = {"squared_hinge": 0, "logistic": 1, "hinge": 2}


@jit(nogil=True)
def _value(code: int, margin: float) -> Any:
    if code == 1:
        return np.log1p(np.exp(-abs(margin))) + max(-margin, 0.0)
    short = max(1.0 - margin, 0.0)
    return 0.5 * short * short if code == 0 else short


@jit(nogil=True)
def _multiplier(code: int, margin: float) -> Any:
    """Return −ℓ′ of a smooth loss."""
    if code == 0:
        return max(1.0 - margin, 0.0)
    e = np.exp(-abs(margin))
    return e / (1.0 + e) if margin >= 0 else 1.0 / (1.0 + e)


@jit(nogil=True)
def _curvature(code: int, margin: float) -> Any:
    if code == 0:
        return 1.0 if margin < 1.0 else 0.0
    e = np.exp(-abs(margin))
    return e / ((1.0 + e) * (1.0 + e))


@jit(nogil=True)
def _solve(H: Any, x: Any, r: int) -> bool:
    """Replace x by H⁻¹x and the lower part of H by its Cholesky factor; False if H is not positive
    definite.
    """
    for j in range(r):
        for i in range(j, r):
            total = H[i, j]
            for c in range(j):
                total -= H[i, c] * H[j, c]
            if i == j:
                if not total > 0.0:
                    return False
                H[j, j] = np.sqrt(total)
            else:
                H[i, j] = total / H[j, j]
    for i in range(r):
        total = x[i]
        for c in range(i):
            total -= H[i, c] * x[c]
        x[i] = total / H[i, i]
    for i in range(r - 1, -1, -1):
        total = x[i]
        for c in range(i + 1, r):
            total -= H[c, i] * x[c]
        x[i] = total / H[i, i]
    return True


@jit(nogil=True)
def _slope(code: int, t: float, margins: Any, changes: Any, terms: Any) -> Any:
    """Return the derivative of the objective at length t of a step; ``terms`` are λz·d and λd·d."""
    total = terms[0] + t * terms[1]
    for i in range(len(margins)):
        total -= _multiplier(code, margins[i] + t * changes[i]) * changes[i]
    return total


@jit(nogil=True)
def _objective(code: int, t: float, margins: Any, changes: Any, terms: Any) -> Any:
    """Return the objective at length t of a step, without the part of the proximal term that does
    not depend on t.
    """
    total = t * terms[0] + 0.5 * t * t * terms[1]
    for i in range(len(margins)):
        total += _value(code, margins[i] + t * changes[i])
    return total


@jit(nogil=True)
def _length(code: int, margins: Any, changes: Any, terms: Any, downhill: float) -> Any:
    """Return a length at which the objective is not larger, and its slope is small or still
    negative.
    """
    if _slope(code, 1.0, margins, changes, terms) <= -0.1 * downhill:
        before = _objective(code, 0.0, margins, changes, terms)
        if _objective(code, 1.0, margins, changes, terms) <= before + 1e-14 * abs(before):
            return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        slope = _slope(code, middle, margins, changes, terms)
        if slope <= 0.0:
            low = middle
            if slope >= 0.5 * downhill:
                break
        else:
            high = middle
    return low


@jit(nogil=True)
def _newton(code: int, B: Any, first: Any, strength: float, work: Any) -> None:  # noqa: C901, PLR0912
    """Write the minimiser of Σ ℓ(first + Bz) + (λ/2)‖z‖² to ``work[0]``."""
    z, g, step, margins, changes, H = work
    n, r = B.shape
    z[:r] = 0.0
    margins[:n] = first[:n]
    for _ in range(100):
        size = length = 0.0
        for j in range(r):
            g[j] = strength * z[j]
            for i in range(j + 1):
                H[j, i] = 0.0
            H[j, j] = strength
        for i in range(n):
            p, h = _multiplier(code, margins[i]), _curvature(code, margins[i])
            if p == 0.0 and h == 0.0:
                continue
            for j in range(r):
                g[j] -= p * B[i, j]
                scaled = h * B[i, j]
                for c in range(j + 1):
                    H[j, c] += scaled * B[i, c]
        for j in range(r):
            size += g[j] * g[j]
            length += z[j] * z[j]
            step[j] = -g[j]
        if size <= (1e-12 * strength) ** 2 * length or not _solve(H, step, r):
            return
        downhill = moved = zd = dd = 0.0
        for j in range(r):
            downhill += g[j] * step[j]
            zd += z[j] * step[j]
            dd += step[j] * step[j]
        last = dd <= 1e-26 * length
        if not (downhill < 0.0 or last):
            return
        for i in range(n):
            changes[i] = 0.0
            for j in range(r):
                changes[i] += B[i, j] * step[j]
        terms = (strength * zd, strength * dd)
        moved = 1.0 if last else _length(code, margins[:n], changes[:n], terms, downhill)
        for j in range(r):
            z[j] += moved * step[j]
        for i in range(n):
            margins[i] = first[i]
            for j in range(r):
                margins[i] += B[i, j] * z[j]
        if last or moved == 0.0:
            return


@jit(nogil=True)
def _solve_faces(K: Any, short: Any, alpha: Any, upper: float, work: Any) -> None:  # noqa: C901, PLR0912
    """Minimise over the coordinates inside the box, fixing those that reach its boundary, until
    none does.
    """
    _, _, step, _, _, H = work
    n = len(K)
    free, ridge = np.empty(n, np.int64), 0.0
    for i in range(n):
        ridge += 1e-15 * K[i, i] / n
    for _ in range(n):
        count = 0
        for i in range(n):
            if 0.0 < alpha[i] < upper:
                free[count] = i
                count += 1
        if count == 0:
            return
        for a in range(count):
            i = free[a]
            step[a] = short[i]
            for j in range(n):
                step[a] -= K[i, j] * alpha[j]  # the gradient: the solution is the change of α
            for b in range(a + 1):
                H[a, b] = K[i, free[b]]
            H[a, a] += ridge
        if not _solve(H, step, count):
            return
        length, hit = 1.0, -1
        for a in range(count):
            room = -alpha[free[a]] if step[a] < 0.0 else upper - alpha[free[a]]
            if step[a] != 0.0 and room / step[a] < length:
                length, hit = room / step[a], a
        for a in range(count):
            alpha[free[a]] = min(max(alpha[free[a]] + length * step[a], 0.0), upper)
        if hit < 0:
            return
        alpha[free[hit]] = 0.0 if step[hit] < 0.0 else upper


@jit(nogil=True)
def _box(K: Any, first: Any, upper: float, work: Any) -> None:  # noqa: C901, PLR0912
    """Write the minimiser α of ½αᵀKα − (1 − first)ᵀα over 0 ≤ α ≤ ``upper`` to ``work[0]``."""
    alpha, g, _, short, _, _ = work
    n = len(K)
    scale = 0.0
    for i in range(n):
        alpha[i] = 0.0
        short[i] = 1.0 - first[i]
        scale = max(scale, abs(short[i]))
    for _ in range(200):
        for i in range(n):
            g[i] = -short[i]
            for j in range(n):
                g[i] += K[i, j] * alpha[j]
        for _ in range(8):
            for i in range(n):
                if K[i, i] > 0.0:
                    change = min(max(alpha[i] - g[i] / K[i, i], 0.0), upper) - alpha[i]
                    if change != 0.0:
                        alpha[i] += change
                        for j in range(n):
                            g[j] += K[i, j] * change
        _solve_faces(K, short, alpha[:n], upper, work)
        worst = largest = 0.0
        for i in range(n):
            gradient, size = -short[i], 0.0
            for j in range(n):
                gradient += K[i, j] * alpha[j]
                size += abs(K[i, j]) * alpha[j]
            if K[i, i] == 0.0:
                continue
            if alpha[i] <= 0.0:
                gradient = min(gradient, 0.0)
            elif alpha[i] >= upper:
                gradient = max(gradient, 0.0)
            worst, largest = max(worst, abs(gradient)), max(largest, size)
        if worst <= 1e-12 * (scale + largest):
            return


@jit(nogil=True)
def _advance(first: int, last: int, state: Any, data: Any, steps: Any, options: Any) -> None:  # noqa: C901, PLR0912
    """Advance trials first..last − 1 over all steps."""
    weights, average, counts, after, means, squares = state
    A, offsets, B, B_offsets, basis, basis_offsets, K, K_offsets = data
    indices, strengths, gains = steps
    code, averaged, track = options
    d = A.shape[1]
    n_max: Any = 1
    for m in range(len(offsets) - 1):
        n_max = max(n_max, offsets[m + 1] - offsets[m])
    margins = np.empty(n_max)
    side = n_max if K.shape[0] > 0 else min(n_max, d)
    work = (
        np.empty(max(n_max, d)),
        np.empty(max(n_max, d)),
        np.empty(max(n_max, d)),
        np.empty(n_max),
        np.empty(n_max),
        np.empty((side, side)),
    )
    for trial in range(first, last):
        w = weights[trial]
        for t in range(indices.shape[1]):
            m = int(indices[trial, t])
            low, n = offsets[m], offsets[m + 1] - offsets[m]
            strength, wanting = strengths[t], False
            for i in range(n):
                margins[i] = 0.0
                for j in range(d):
                    margins[i] += A[low + i, j] * w[j]
                wanting = wanting or margins[i] < 1.0
            if n and (wanting or (code == 1 and strength > 0.0)):
                r = min(n, d)
                change = work[0]
                if code == 2 or strength == 0.0:
                    block = K[K_offsets[m] : K_offsets[m] + n * n].reshape(n, n)
                    _box(block, margins, 1.0 / strength if strength > 0.0 else np.inf, work)
                    for i in range(n):
                        if change[i] != 0.0:
                            for j in range(d):
                                w[j] += change[i] * A[low + i, j]
                else:
                    block = B[B_offsets[m] : B_offsets[m] + n * r].reshape(n, r)
                    _newton(code, block, margins, strength, work)
                    if n < d:
                        for i in range(r):
                            start = basis_offsets[m] + i * d
                            for j in range(d):
                                w[j] += change[i] * basis[start + j]
                    else:
                        for j in range(d):
                            w[j] += change[j]
            if averaged:
                for j in range(d):
                    average[trial, j] += gains[t] * (w[j] - average[trial, j])
            if track:
                measured = average[trial] if averaged else w
                counts[trial, m] += 1.0
                for i in range(n):
                    margin = 0.0
                    for j in range(d):
                        margin += A[low + i, j] * measured[j]
                    after[trial, m] += _value(code, margin)
                    change_ = margin - means[trial, low + i]
                    means[trial, low + i] += change_ / counts[trial, m]
                    squares[trial, m] += change_ * (margin - means[trial, low + i])


class CompiledRun(MarginRun):
    """Runs advanced by a compiled loop, on all processors."""

    def advance(self, indices: Indices, strengths: Floats, gains: Floats | None) -> None:
        state = self.weights, self.average, self.counts, self.after, self.means, self.spread
        code = _CODES[self.loss.name]
        grams = (
            self._grams
            if code == 2 or not np.all(strengths > 0)
            else (np.zeros(0), np.zeros(0, np.int64))
        )
        data = (self.rows.A, self.rows.offsets, *self._bases, *grams)
        steps = indices, strengths, np.zeros(0) if gains is None else gains
        options = code, self.averaged, self.track
        n_trials = len(self.weights)
        # handing work over costs 50 µs
        threads = min(n_threads(), n_trials) if indices.size > 200 else 1
        chunk = -(-n_trials // threads)
        spread(
            lambda low, high: _advance(low, high, state, data, steps, options),
            n_trials,
            chunk,
            threads,
        )

    @cached_property
    def _bases(self) -> Any:
        """The tasks in coordinates of their smaller side, with orthonormal bases of the spans of
        few rows.
        """
        reduced, bases, d = [], [], self.rows.A.shape[1]
        for m in range(self.rows.n_tasks):
            A = self.rows.of_task(m)
            if len(A) < d:
                Q, R = np.linalg.qr(A.T)
                reduced.append(R.T.reshape(-1))
                bases.append(Q.T.reshape(-1))
            else:
                reduced.append(A.reshape(-1))
                bases.append(np.zeros(0))
        return (*_flat(reduced), *_flat(bases))

    @cached_property
    def _grams(self) -> Any:
        """The inner products of the rows of each task."""
        blocks = [self.rows.of_task(m) for m in range(self.rows.n_tasks)]
        return _flat([(A @ A.T).reshape(-1) for A in blocks])


def _flat(parts: list[Floats]) -> tuple[Floats, Any]:
    """Return arrays one after another, and where each begins."""
    return np.concatenate(parts), np.concatenate(
        [[0], np.cumsum([len(part) for part in parts])]
    ).astype(np.int64)
