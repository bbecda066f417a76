"""Lower bounds: some collection has at least this loss, so no guarantee for all is below it."""

from forgetless.theory import hypotheses as h
from forgetless.theory.bound import Bound
from forgetless.theory.constructions import (
    seen_task_loss,
    seen_task_probability,
    unseen_task_loss,
)
from forgetless.theory.derived import OPTIMAL, PAGE
from forgetless.theory.hypotheses import steps
from forgetless.theory.published import TABLE

_ANY = "Theorem in Appendix B (any algorithm), thm:any_algorithm_lower_bound"
_SEEN = (
    "Lemma “Lower bound for seen-task loss in regularized continual linear regression”, Section"
    " 4.3, lem:regularized_scheme_seen_lb"
)

LOWER = [
    # One of k tasks is not drawn with probability ≥ ¼, and then its sign is unknown.
    Bound(
        name="any algorithm",
        kind="lower",
        rate="1/(16k)",
        hypotheses=(h.UNIFORM, steps(2)),
        value=lambda s: 1 / (16 * s.k),
        place=_ANY,
    ),
    # The same tasks from w₀ = 0: filters never guess, and the probability is (1 − 1/k)^k.
    Bound(
        name="any filter",
        kind="lower",
        rate="(1 − 1/k)^k/(2k) ≥ 1/(8k)",
        hypotheses=(h.UNIFORM, steps(2)),
        value=lambda s: unseen_task_loss(s.k, s.k),
        place=f"{_ANY}, on its construction",
        status="derived",
    ),
    # k + 1 tasks and a random sign.
    Bound(
        name="any algorithm, one task more",
        kind="lower",
        rate="k^k/(2(k+1)^{k+1}) ≥ 1/(2e(k+1))",
        hypotheses=(h.UNIFORM,),
        value=lambda s: unseen_task_loss(s.k, s.k + 1),
        place=f"{_ANY}, with k + 1 tasks and the exact probability",
        status="derived",
    ),
    # k + 1 orthonormal rows, each once: the last was never seen. “minimax, next task” attains it.
    Bound(
        name="any algorithm, next task",
        kind="lower",
        rate="1/(2(k+1))",
        hypotheses=(h.WITHOUT, h.EXCHANGEABLE),
        value=lambda s: 1 / (2 * (s.k + 1)),
        quantity="next_loss",
        citation=OPTIMAL,
        place="Theorem X, lower bound",
        status="derived",
    ),
    # 2k orthonormal rows, of which half are not seen.
    Bound(
        name="any algorithm, without replacement",
        kind="lower",
        rate="1/(8k)",
        hypotheses=(h.WITHOUT,),
        value=lambda s: 1 / (8 * s.k),
        citation=OPTIMAL,
        place="Theorem S, lower bound",
        status="derived",
    ),
    # 1/(144k) with probability ≥ ¼.
    Bound(
        name="seen tasks, explicit",
        kind="lower",
        rate="(1/4)·1/(144k)",
        hypotheses=(h.UNIFORM, h.EXPLICIT, steps(9)),
        value=lambda s: 1 / (576 * s.k),
        quantity="seen_loss",
        place=_SEEN,
    ),
    # The exact probability, and the least loss over the case split of the proof.
    Bound(
        name="seen tasks, explicit, tight",
        kind="lower",
        rate="(1 − 1/k)^{k−1}·(1/16k)·2(k−1)/(2k−1)",
        hypotheses=(h.UNIFORM, h.EXPLICIT, steps(2)),
        value=lambda s: seen_task_probability(s.k) * seen_task_loss(s.k),
        quantity="seen_loss",
        place=_SEEN,
        status="derived",
    ),
    # Rank-one tasks in a chain of levels: ``constructions.jump_chain_limit()`` computes the number,
    # and whole dimensions reach .20 to .21 at practical k.
    Bound(
        name="unregularized, jump chains",
        kind="lower",
        rate="0.2257/k as k → ∞",
        hypotheses=(h.UNIFORM, h.UNREGULARIZED),
        citation=PAGE,
        place="Proposition J, with one evaluated 8 × 8 exponential",
        status="derived",
    ),
    Bound(
        name="unregularized, lower",
        kind="lower",
        rate="1/k",
        hypotheses=(h.UNIFORM, h.UNREGULARIZED),
        citation="Evron et al. (2022)",
        place=f"proof of Theorem 10, two tasks repeated, {TABLE}",
        status="literature",
    ),
    Bound(
        name="cyclic, unregularized, lower",
        kind="lower",
        rate="M²/k",
        hypotheses=(h.CYCLIC, h.UNREGULARIZED),
        citation="Evron et al. (2022)",
        place=TABLE,
        status="literature",
    ),
]
