"use strict";
/* One order of tasks, followed: the state is a vector, and derivatives come from one pass back. */
const OneOrder = (() => {
  const { dot } = Spectrum;

  function run(prob, plan, wanted) {
    const { D, n, L, R, offsets } = prob,
      { k, order } = plan,
      phi = Moments.shares(prob, plan);
    const path = [Float64Array.from(prob.state)],
      record = recorder(prob, plan),
      loss = new Float64Array(k + 1);
    loss[0] = record.value(prob.state, 0);
    for (let t = 0; t < k; t++) {
      const U = Float64Array.from(path[t]),
        m = order[t % order.length];
      for (let i = offsets[m]; i < offsets[m + 1]; i++) {
        const x = phi[t * n + i] * dot(R, i * D, path[t], 0, D);
        for (let a = 0; a < D; a++) U[a] -= x * L[i * D + a];
      }
      path.push(U);
      record.visit(m, U);
      loss[t + 1] = record.value(U, t + 1);
    }
    return { loss, slope: wanted ? slopes(prob, plan, phi, path) : null };
  }

  // What is measured on the way: visits of every task, the mean outputs right after them and their spread.
  function recorder({ D, n, R, s, M, w, owner, offsets, floor, floors }, { metric }) {
    const visits = new Float64Array(floors.length),
      means = new Float64Array(n),
      spread = new Float64Array(floors.length);
    const output = (j, U) => s[j] * dot(R, j * D, U, 0, D);
    function visit(m, U) {
      visits[m]++;
      for (let j = offsets[m]; j < offsets[m + 1]; j++) {
        const x = output(j, U),
          change = x - means[j];
        means[j] += change / visits[m];
        spread[m] += change * (x - means[j]);
      }
    }
    function value(U, t) {
      let total = 0;
      if (metric !== "average_loss" && t === 0) return NaN;
      for (let j = 0; j < n; j++) {
        const x = output(j, U),
          m = owner[j];
        if (metric === "average_loss") total += w[j] * x * x;
        else total += visits[m] * (metric === "seen_loss" ? x * x : (x - means[j]) * (x + means[j]));
      }
      if (metric === "average_loss") return 0.5 * total + floor;
      if (metric === "seen_loss") return (0.5 * total + floors.reduce((sum, x, m) => sum + x * visits[m], 0)) / t;
      return (0.5 * (total - spread.reduce((a, b) => a + b, 0))) / t;
    }
    return { visit, value };
  }

  function slopes(prob, plan, phi, path) {
    const { D, n, L, R, s, w, owner, offsets } = prob,
      { k, order, metric } = plan,
      slope = new Float64Array(k);
    const visits = new Float64Array(prob.floors.length);
    for (let t = 0; t < k; t++) visits[order[t % order.length]]++;
    const g = new Float64Array(D);
    for (let j = 0; j < n; j++) {
      const weight = metric === "average_loss" ? w[j] : visits[owner[j]] / k;
      const x = weight * s[j] * s[j] * dot(R, j * D, path[k], 0, D);
      for (let a = 0; a < D; a++) g[a] += x * R[j * D + a];
    }
    for (let t = k - 1; t >= 0; t--) {
      const m = order[t % order.length],
        U = path[t];
      for (let i = offsets[m]; metric === "forgetting" && i < offsets[m + 1]; i++) {
        const x = (s[i] * s[i] * dot(R, i * D, path[t + 1], 0, D)) / k;
        for (let a = 0; a < D; a++) g[a] -= x * R[i * D + a];
      }
      const before = Float64Array.from(g);
      for (let i = offsets[m]; i < offsets[m + 1]; i++) {
        const x = dot(L, i * D, before, 0, D);
        slope[t] -= x * dot(R, i * D, U, 0, D) * Moments.shareSlope(prob, plan, phi, t, i);
        for (let a = 0; a < D; a++) g[a] -= phi[t * n + i] * x * R[i * D + a];
      }
    }
    return slope;
  }

  return { run };
})();
