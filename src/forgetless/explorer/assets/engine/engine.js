"use strict";
/* The exact engine of forgetless: what a schedule does to a collection, in the words of fl.expect and fl.gradient.
 *
 * A plan is {k, scheme, values, other, order, metric}:
 *   scheme   "ridge": values are λ_t.  "size": values are γ_t, other is N.  "budget": values are N_t, other is γ.
 *   order    null for draws with replacement, or task numbers, again and again
 *   metric   "average_loss", "seen_loss" or "forgetting" */
const Engine = (() => {
  const run = (prob, plan, wanted) => (plan.order ? OneOrder : Draws).run(prob, plan, wanted);

  return {
    problem: Problem.of,
    curve: (prob, plan) => run(prob, plan, false).loss, // after 0..k steps
    gradient: (prob, plan) => run(prob, plan, true), // {loss, slope}: ∂loss_k/∂values_t
    kept: (prob, plan) => (plan.order ? plan.k * prob.D : Draws.kept(prob, plan)),
  };
})();
