"""Compiled loops: ``push`` carries moments along a chain of tasks, ``run_trials`` makes runs.

numba compiles the functions at their first call and keeps the result on disk. Where it cannot be
imported they run as they are, a hundred times slower, after one warning (none if
FORGETLESS_NUMBA=never is set). All release the GIL, so that ``in_threads`` may use several
processors. The loops are long on purpose: a call within them, or a view of a row that gets a name,
costs reference counts of 5 to 10 ns each, where a step takes 10 to 200.
"""

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from forgetless._running import n_threads, spread

# no mutant: only the time differs
_SMALL = 1500
"""Multiplications below which a product is a loop: calling BLAS takes as long as a thousand."""

# no mutant: only the time differs
_WORTH_THREADS = 1e6
"""Multiplications from which on a second thread gains more than it costs to wake it."""

# no mutant: only the time differs
_OPTIONS: Any = {"fastmath": {"reassoc", "contract"}, "nogil": True, "error_model": "numpy"}
"""Of numba: sums may be reordered, but infinities stay what they are."""


def _decorator() -> Any:
    """Return numba's decorator; None where it cannot be used."""
    if os.environ.get("FORGETLESS_NUMBA") == "never":
        return None
    try:
        from numba import njit
        from numba.core import event
    except (ImportError, RuntimeError, OSError) as error:
        message = f"numba cannot be used ({error}); the laboratory runs some hundred times slower"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return None

    class Once(event.Listener):
        """Says on stderr, at the first compilation of a process, why the call takes long."""

        said = False

        def on_start(self, event: Any) -> None:
            if not self.said:
                sys.stderr.write("forgetless: compiling once, some ten seconds\n")
            self.said = True

        def on_end(self, event: Any) -> None:
            """Do nothing."""

    register: Any = event.register
    register("numba:compile", Once())
    return njit


_njit = _decorator()


def _compiled(function: Any) -> Any:
    """Return a function compiled by numba; the function itself where numba cannot be used."""
    if _njit is None:
        return function
    try:
        # no mutant: only the time differs
        return _njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder for the cache can be written
        return _njit(**_OPTIONS)(function)


def in_threads(
    work: Callable[[int, int], None],
    n_items: int,
    size: float,
) -> None:
    """Call ``work(low, high)`` on parts of range(n_items), in threads if ``size`` is worth them."""
    # no mutant: only the time differs
    threads = min(n_items, n_threads()) if size > _WORTH_THREADS else 1
    # Parts of equal length, rounded up.
    chunk = -(-n_items // threads)
    spread(work, n_items, chunk, threads)


@_compiled
def push(  # noqa: C901, PLR0912, PLR0915 - in five parts epochs take 1.4 to 1.7 times as long
    low: int,
    high: int,
    S: Any,
    new: Any,
    moves: Any,
    maps: Any,
    phi: Any,
) -> None:
    """Write Σ_e p_e M_e S_e M_eᵀ into ``new`` for the targets low..high − 1, e being their moves.

    One step on a task is U ← M U with M = I − Lᵀ diag(φ) R, L and R having a row for every
    singular vector of the task. With T = R S and K = R S Rᵀ the moment S = E[U Uᵀ] becomes

        M S Mᵀ = S − A − Aᵀ,   A = Lᵀ Y,   Y = φ (T − ½ K φ L),

    since A + Aᵀ = Lᵀφ T + Tᵀφ L − Lᵀφ K φ L. The sum C of all ½ S − A becomes C + Cᵀ, symmetric to
    the last bit: an antisymmetric rounding error would never be contracted. Label noise of variance
    n_j along singular vector j adds n_j to K_jj, times the probability of the state, the entry
    ``one`` of S.

    S (states, Q, B, Q) holds the moments of B schedules, with the schedules *in the middle*: both
    large products are then single products of Q × BQ matrices, and the small ones run over
    contiguous rows. Consecutive moves between the same two states form one run, whose tasks share
    these products (``Moves.table``). L and R may have fewer columns than S: the leading ones.
    ``maps`` are those of ``lab.coordinates.Maps``.
    """
    runs_of, starts, source, task, probability = moves
    left, right, offsets, noise, one = maps
    _, Q, B, _ = S.shape
    n_left = left.shape[1]
    n_right = right.shape[1]
    # Work arrays for a run of all tasks, made once for all targets.
    T = np.empty((len(left), B, Q))
    A = np.empty((n_left, B * Q))
    K = np.empty(len(left))
    flat = S.reshape(len(S), Q * B * Q)
    out = new.reshape(len(new), Q * B * Q)
    for target in range(low, high):
        # no mutant: a sum of zeros is zero
        reached = False
        for i in range(Q * B * Q):
            out[target, i] = 0.0
        for run in range(runs_of[target], runs_of[target + 1]):
            begin = starts[run]
            end = starts[run + 1]
            s = source[begin]
            # Half of the sets lack a task whose visits are followed. Moments without a diagonal are
            # zero.
            i = 0
            while i < Q * B and S[s, i // B, i % B, i // B] == 0.0:
                i += 1
            if i == Q * B:
                continue
            reached = True
            first = offsets[task[begin]]
            n = offsets[task[end - 1] + 1] - first
            # T = R S for all tasks of the run, which begin at the same state. Small products are
            # loops over entries: a view of a row costs more than the product.
            # no mutant: both ways compute the same products
            small = n * n_right * B * Q < _SMALL
            if small:
                for j in range(n):
                    for b in range(B):
                        for y in range(Q):
                            entry = 0.0
                            for x in range(n_right):
                                # S is symmetric: its row y in place of its column y.
                                entry += right[first + j, x] * S[s, y, b, x]
                            T[j, b, y] = entry
            else:
                rows = S[s, :n_right].reshape(n_right, B * Q)
                np.dot(right[first : first + n], rows, T[:n].reshape(n, B * Q))
            total = 0.0
            for e in range(begin, end):
                p = probability[e]
                total += p
                lo = offsets[task[e]]
                hi = offsets[task[e] + 1]
                for j in range(lo, hi):
                    for b in range(B):
                        # The row T of one singular vector is replaced by p Y = p φ (T − ½ K φ L).
                        for o in range(lo, hi):
                            # Noise of one visit is independent along singular vectors.
                            product = noise[j] * S[s, one, b, one] if o == j else 0.0
                            for y in range(n_right):
                                product += right[o, y] * T[j - first, b, y]
                            # The ½ of Y: both A and Aᵀ carry half of Lᵀφ K φ L.
                            K[o - lo] = -0.5 * phi[o, b] * product
                        for o in range(lo, hi):
                            for y in range(n_left):
                                T[j - first, b, y] += K[o - lo] * left[o, y]
                        scale = p * phi[j, b]
                        for y in range(Q):
                            T[j - first, b, y] *= scale
            # Ten times 0.1 is 1 − 1e-16: as a factor of S at every step that would be a decay.
            half = 0.5 if abs(total - 1.0) < 1e-9 else 0.5 * total
            for i in range(Q * B * Q):
                out[target, i] += half * flat[s, i]
            # Less A, of which L may have fewer rows than S.
            if small:
                for j in range(n):
                    for x in range(n_left):
                        for b in range(B):
                            for y in range(Q):
                                new[target, x, b, y] -= left[first + j, x] * T[j, b, y]
            else:
                np.dot(left[first : first + n].T, T[:n].reshape(n, B * Q), A)
                for x in range(n_left):
                    for i in range(B * Q):
                        out[target, x * B * Q + i] -= A[x, i]
        # C + Cᵀ, symmetric to the last bit.
        for x in range(Q if reached else 0):
            for b in range(B):
                for y in range(x + 1):
                    both = new[target, x, b, y] + new[target, y, b, x]
                    new[target, x, b, y] = both
                    new[target, y, b, x] = both


@_compiled
def push_often(
    S: Any,
    moves: Any,
    maps: Any,
    phi: Any,
    gains: Any,
) -> Any:
    """Return S after the steps of φ (T, Σr, B) with the same moves of one state.

    In one call, as a step may take less time than a call.

    With ``gains`` (T,) the trailing half of the coordinates is the average Ū of the leading half:
    Ū ← Ū + g (U − Ū).
    """
    _, Q, B, _ = S.shape
    n = Q // 2
    old = np.empty_like(S)
    new = S.copy()
    for t in range(len(phi)):
        old, new = new, old
        push(0, 1, old, new, moves, maps, phi[t])
        if len(gains):
            X = new[0]
            g = gains[t]
            # Ū ← Ū + g (U − Ū) on the rows, then on the columns of E[(U, Ū)(U, Ū)ᵀ].
            for x in range(n):
                for b in range(B):
                    for y in range(Q):
                        X[n + x, b, y] += g * (X[x, b, y] - X[n + x, b, y])
            for x in range(Q):
                for b in range(B):
                    for y in range(n):
                        X[x, b, n + y] += g * (X[x, b, y] - X[x, b, n + y])
    return new


@_compiled
def run_trials(  # noqa: C901, PLR0912, PLR0913, PLR0915 - in parts it takes ten times as long
    low: int,
    high: int,
    w: Any,
    order: Any,
    phi: Any,
    vectors: Any,
    targets: Any,
    offsets: Any,
    scale: Any,
    average: Any,
    visits: Any,
    noise: Any,
    walk: Any,
    gram: Any,
    axes: Any,
) -> None:
    """Make the steps of ``order`` (n, T) on the weights w (n, d) of runs low..high − 1, in place.

    One step is w ← w − Vᵀ φ ∘ (V w − t); t of run i is column i modulo c of ``targets``, so that
    several targets are runs of their own. Groups of four runs make all steps, then the next four.
    Each of the other arguments may be None, and then its branches are not compiled:

    average : the average (n, d) of every run and the gains (T,) of its updates.
    visits : for metrics of the path, the number of visits of each task (n, M), and mean (n, Σr) and
        spread (n, M) of the outputs s ∘ (V w − t) right after, by Welford's updates.
    noise : (n, T, r), of which noise/s is added to t.
    walk : (n, T, d), subtracted from weights and average before a step: the teacher has moved.
    gram : anything, where w holds V w for all tasks, and ``vectors`` V Vᵀ: the error is then read.
    axes : d zeros, for few features: loops over their number are unrolled.
    """
    fixed = phi.shape[0] == 1
    # Unsigned throughout: a signed index may be negative, and the check for that blocks SIMD.
    c = np.uint64(targets.shape[1])
    d = np.uint64(w.shape[1] if axes is None else len(axes))
    end = np.uint64(high)
    # no mutant: only the time differs
    together = np.uint64(4)  # runs in turn: the processor overlaps their steps
    undisturbed = average is None and noise is None and walk is None
    rank_one = np.all(np.diff(offsets) == np.uint64(1))
    errors = np.empty(len(vectors))
    shifts = np.zeros(len(vectors))
    if average is not None:
        mean, gains = average
    for group in range(np.uint64(low), end, together):
        for t in range(np.uint64(order.shape[1])):
            now = np.uint64(0) if fixed else t
            for i in range(group, min(group + together, end)):
                m = np.uint64(order[i, t])
                a = i % c
                lo = offsets[m]
                hi = offsets[m + np.uint64(1)]
                if undisturbed and rank_one:
                    # The weights wait for no number from memory: 2 instead of 6 ns a step.
                    error = -targets[lo, a]
                    if gram is None:
                        for x in range(d):
                            error += vectors[lo, x] * w[i, x]
                    else:
                        error += w[i, lo]
                    if visits is not None:
                        errors[0] = error
                    error *= phi[now, lo]
                    for x in range(d):
                        w[i, x] -= error * vectors[lo, x]
                else:
                    if walk is not None:
                        for x in range(d):
                            w[i, x] -= walk[i, t, x]
                            if average is not None:
                                mean[i, x] -= walk[i, t, x]
                    for j in range(lo, hi):
                        # The errors V w − t of the task before the step.
                        error = -targets[j, a]
                        if gram is None:
                            for x in range(d):
                                error += vectors[j, x] * w[i, x]
                        else:
                            error += w[i, j]
                        errors[j - lo] = error
                        if noise is not None:
                            shifts[j - lo] = noise[i, t, j - lo] / scale[j]
                    for j in range(lo, hi):
                        # Singular vectors are orthogonal: their steps do not disturb each other.
                        step = phi[now, j] * (errors[j - lo] - shifts[j - lo])
                        for x in range(d):
                            w[i, x] -= step * vectors[j, x]
                    if average is not None:
                        for x in range(d):
                            mean[i, x] += gains[t] * (w[i, x] - mean[i, x])
                if visits is not None:
                    counts, means, spreads = visits
                    counts[i, m] += 1.0
                    # Welford: the mean moves by change/n, the spread grows by (1 − 1/n) change².
                    weight = 1.0 / counts[i, m]
                    total = 0.0
                    for j in range(lo, hi):
                        # After the step the error is (1 − φ) e, and the noise has moved it by φ.
                        output = (1.0 - phi[now, j]) * errors[j - lo] + phi[now, j] * shifts[j - lo]
                        if average is not None:
                            output = -targets[j, a]
                            if gram is None:
                                for x in range(d):
                                    output += vectors[j, x] * mean[i, x]
                            else:
                                output += mean[i, j]
                        change = scale[j] * output - means[i, j]
                        means[i, j] += weight * change
                        total += (1.0 - weight) * change * change
                    spreads[i, m] += total
