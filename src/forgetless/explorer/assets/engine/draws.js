"use strict";
/* Tasks drawn independently, with replacement: exact expected losses after every step, and their derivatives. */
const Draws = (() => {
  const { products, collect, decrease, start, form, half, shareSlope } = Moments;

  // ---- the average loss --------------------------------------------------------------------------------------------
  // ``carried`` holds L V_t of every step, V_t being the final loss as a form of S_t.
  function averageLoss(prob, plan, phi, carried) {
    const { D, n, L, R, s, w, floor, offsets } = prob,
      { k } = plan,
      last = offsets.length - 1;
    const buffer = Moments.scratch(prob),
      { T, W } = buffer,
      S = start(prob),
      loss = new Float64Array(k + 1);
    const slope = carried ? new Float64Array(k) : null;
    for (let t = 0; t <= k; t++) {
      const pt = Math.min(t, k - 1) * n;
      products(prob, S, 0, phi, pt, L, R, buffer, 0, last);
      let total = 0;
      for (let j = 0; j < n; j++) total += w[j] * s[j] * s[j] * Spectrum.dot(T, j * D, R, j * D, D);
      loss[t] = Math.max(0, 0.5 * total) + floor;
      if (t === k) break;
      for (let j = 0; carried && j < n; j++) {
        let sum = 0;
        for (let o = j * D, at = t * n * D + o, end = o + D; o < end; o++, at++) sum += carried[at] * (T[o] - W[o]);
        slope[t] -= w[j] * sum * shareSlope(prob, plan, phi, t, j);
      }
      collect(prob, phi, pt, L, buffer, 0, last, S, 0);
    }
    return { loss, slope };
  }

  function backwards(prob, k, phi) {
    const { D, n, L, R, offsets } = prob,
      last = offsets.length - 1,
      V = form(prob, 0, last, true);
    const buffer = Moments.scratch(prob),
      carried = new Float64Array(k * n * D);
    for (let t = k - 1; t >= 0; t--) {
      products(prob, V, 0, phi, t * n, R, L, buffer, 0, last);
      carried.set(buffer.T, t * n * D);
      collect(prob, phi, t * n, R, buffer, 0, last, V, 0);
    }
    return carried;
  }

  // ---- seen tasks and forgetting -----------------------------------------------------------------------------------
  // Every task m has P, the sum over its visits s of E[U_s U_sᵀ], and F, that of E[U_t U_tᵀ − U_s U_sᵀ] for the same.
  function path(prob, plan, phi, wanted) {
    const { D, n, L, R, floor, offsets, probability } = prob,
      { k, metric } = plan,
      size = D * D;
    const tasks = offsets.length - 1,
      seen = metric === "seen_loss",
      loss = new Float64Array(k + 1).fill(NaN);
    const S = start(prob),
      P = new Float64Array(tasks * size),
      F = new Float64Array(tasks * size);
    const sum = new Float64Array(size),
      buffer = Moments.scratch(prob),
      slope = wanted ? new Float64Array(k) : null;
    const back = wanted ? pathBackwards(prob, plan, phi) : null,
      row = new Float64Array(n);
    const summed = (m) => {
      for (let i = 0; i < size; i++) sum[i] = F[m * size + i] + P[m * size + i];
      return sum;
    };
    for (let t = 0; t < k; t++) {
      row.fill(0);
      for (let m = 0; m < tasks; m++) {
        products(prob, summed(m), 0, phi, t * n, L, R, buffer, 0, tasks);
        if (wanted) addSlopes(prob, buffer, back.V, ((t + 1) * tasks + m) * size, 0, n, row);
        collect(prob, phi, t * n, L, buffer, 0, tasks, F, m * size);
      }
      products(prob, S, 0, phi, t * n, L, R, buffer, 0, tasks);
      for (let m = 0; m < tasks; m++) {
        const to = m * size;
        if (wanted) {
          const at = ((t + 1) * tasks + m) * size; // later visits, and this one
          addSlopes(prob, buffer, back.W, (t + 1) * size, offsets[m], offsets[m + 1], row);
          addSlopes(prob, buffer, seen ? back.V : back.E, at, offsets[m], offsets[m + 1], row);
        }
        for (let i = 0; i < size; i++) P[to + i] += probability[m] * S[i];
        collect(prob, phi, t * n, L, buffer, m, m + 1, P, to);
      }
      collect(prob, phi, t * n, L, buffer, 0, tasks, S, 0);
      let total = 0;
      for (let m = 0; m < tasks; m++) {
        total += half(prob, seen ? summed(m) : F.subarray(m * size, m * size + size), m, m + 1, false);
      }
      loss[t + 1] = seen ? Math.max(0, total / (t + 1)) + floor : total / (t + 1);
      if (wanted) for (let j = 0; j < n; j++) slope[t] -= (row[j] / k) * shareSlope(prob, plan, phi, t, j);
    }
    return { loss, slope };
  }

  // row_j += p_j (L_j V)(T − W)_j
  function addSlopes({ D, L, w }, { T, W }, V, at, first, last, row) {
    for (let j = first; j < last; j++) {
      const o = j * D;
      let sum = 0;
      for (let a = 0; a < D; a++) {
        let x = 0;
        for (let b = 0, line = at + a * D; b < D; b++) x += L[o + b] * V[line + b];
        sum += x * (T[o + a] - W[o + a]);
      }
      row[j] += w[j] * sum;
    }
  }

  // V_m carries the loss of task m backwards, E = V − H without cancellation, and W what the visits after t make of S_t.
  function pathBackwards(prob, plan, phi) {
    const { D, n, L, R, offsets, probability } = prob,
      { k } = plan,
      size = D * D,
      tasks = offsets.length - 1;
    const seen = plan.metric === "seen_loss",
      block = tasks * size,
      buffer = Moments.scratch(prob);
    const V = new Float64Array((k + 1) * block),
      E = new Float64Array((k + 1) * block),
      W = new Float64Array((k + 1) * size);
    const H = Array.from({ length: tasks }, (_, m) => form(prob, m, m + 1, false));
    H.forEach((each, m) => V.set(each, k * block + m * size));
    for (let t = k - 1; t >= 0; t--) {
      E.copyWithin(t * block, (t + 1) * block, (t + 2) * block);
      W.copyWithin(t * size, (t + 1) * size, (t + 2) * size);
      decrease(prob, W, (t + 1) * size, phi, t * n, R, L, buffer, 0, tasks, W, t * size);
      for (let m = 0; m < tasks; m++) {
        const after = (t + 1) * block + m * size,
          here = t * block + m * size,
          own = seen ? V : E;
        decrease(prob, V, after, phi, t * n, R, L, buffer, 0, tasks, E, here);
        for (let i = 0; i < size; i++) V[here + i] = E[here + i] + H[m][i];
        for (let i = 0; i < size; i++) W[t * size + i] += probability[m] * own[after + i];
        decrease(prob, own, after, phi, t * n, R, L, buffer, m, m + 1, W, t * size);
      }
    }
    return { V, E, W };
  }

  function run(prob, plan, wanted) {
    const phi = Moments.shares(prob, plan);
    if (plan.metric !== "average_loss") return path(prob, plan, phi, wanted);
    return averageLoss(prob, plan, phi, wanted ? backwards(prob, plan.k, phi) : null);
  }

  // Numbers that a gradient keeps
  function kept(prob, plan) {
    const size = plan.k * prob.D ** 2;
    return plan.metric === "average_loss" ? plan.k * prob.D * prob.n : (2 * prob.counts.length + 1) * size;
  }

  return { run, kept };
})();
