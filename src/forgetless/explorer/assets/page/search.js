"use strict";
/* What a schedule is compared with: the best constant, then the optimum by descent. Both take many curves, so that they
 * are computed in slices between frames, and never while a hand is drawing. */
const Search = (() => {
  const SLICE = 20; // milliseconds

  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

  // live(): whether the problem is still the same; busy(): whether a hand is drawing; gradients(): whether there is room
  // for them. found(name, {heights}) hears of results, found(name, {waiting}) of what is under way.
  async function run({ state, prob, planOf, theorem, live, busy, gradients }, found) {
    const { scheme, k } = state,
      last = (heights) => Engine.curve(prob, planOf(heights))[k],
      flat = (height) => new Float64Array(k).fill(height);

    async function finish(work, told) {
      for (let since = performance.now(); ;) {
        const { done, value } = work.next();
        if (done) return value;
        if (performance.now() - since < SLICE) continue;
        told(value);
        do await sleep(busy() ? 60 : 0);
        while (busy());
        if (!live()) return null;
        since = performance.now();
      }
    }

    await sleep(120); // a slider that moves on is not waited for
    if (!live()) return;
    const constant = await finish(
      Descent.constant((height) => last(flat(height)), scheme),
      () => {},
    );
    if (!constant) return;
    found("constant", { heights: flat(constant.height), height: constant.height });
    if (!gradients()) return found("optimum", { waiting: "too large to descend in this page", final: true });
    found("optimum", { waiting: "descending …" });
    const starts = [flat(constant.height), theorem.heights];
    if (scheme === "ridge") starts.push(Schedules.heights({ ...state, schedule: { preset: "ramp" } }));
    const start = starts.reduce((a, b) => (last(b) < last(a) ? b : a));
    const best = await finish(Descent.run(...problem(state, prob, planOf), start), ({ round, loss }) =>
      found("optimum", { waiting: `descending, round ${round + 1}: ${Plot.shown(loss)}` }),
    );
    if (!best) return;
    const heights = scheme === "budget" ? best.heights.map((x) => Math.max(1, Math.round(x))) : best.heights;
    found("optimum", { heights });
  }

  // The loss and its slopes by heights, the scheme, and λ₀ in units of R²: the smallest squared singular value, below which
  // a coefficient hardly changes any share
  function problem({ scheme, k }, prob, planOf) {
    const square = prob.radius ** 2 || 1,
      factor = { ridge: square, size: 1 / square, budget: 1 }[scheme];
    const gradient = (heights) => {
      const { loss, slope } = Engine.gradient(prob, planOf(heights));
      return { loss: loss[k], slope: slope.map((x) => x * factor) };
    };
    const least = prob.s.reduce((a, x) => Math.min(a, (x * x) / square), 1);
    return [gradient, scheme, scheme === "ridge" ? Math.max(1e-6, least) : 1];
  }

  return { run };
})();
