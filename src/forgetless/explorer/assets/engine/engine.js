"use strict";
/* The exact engine of forgetless: what a schedule does to a collection, in the words of fl.expect and fl.gradient.
 *
 * A plan is {k, scheme, values, other, order, metric, average}:
 *   scheme   "ridge": values are λ_t.  "size": values are γ_t, other is N.  "budget": values are N_t, other is γ.
 *   order    null for draws with replacement, or task numbers, again and again
 *   metric   "average_loss", "seen_loss" or "forgetting"
 *   average  null, or r for the average of the iterates with weights t^r (of the average loss) */
const Engine = (() => {
  const run = (prob, plan, wanted) => (plan.order ? OneOrder : Draws).run(prob, plan, wanted);

  return {
    problem: Problem.of,
    curve: (prob, plan) => run(prob, plan, false).loss, // after 0..k steps
    gradient: (prob, plan) => run(prob, plan, true), // {loss, slope}: ∂loss_k/∂values_t
    kept: (prob, plan) => (plan.order ? plan.k * prob.D : Draws.kept(prob, plan)),
    step(prob, m, share, w) {
      // the equation itself: w ← w − Vᵀ φ (V w − targets)
      const next = Float64Array.from(w),
        { d, V, targets, offsets } = prob;
      for (let i = offsets[m]; i < offsets[m + 1]; i++) {
        const x = share[i] * (Spectrum.dot(V, i * d, w, 0, d) - targets[i]);
        for (let a = 0; a < d; a++) next[a] -= x * V[i * d + a];
      }
      return next;
    },
    shares: Moments.shares,
  };
})();
