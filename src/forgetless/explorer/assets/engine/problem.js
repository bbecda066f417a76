"use strict";
/* A task collection as the exact engine sees it: every task by its spectrum, then the maps of one step.
 *
 * A task (X, y) is its directions V, singular values s and targets V X⁺y: its loss is ½‖s ∘ (V w − targets)‖² + floor.
 * The state U is the error w − w⋆ in coordinates of the joint span, and a 1 below it where no model fits all tasks; one
 * step on a task is U ← (I − Lᵀ φ R) U. Where w⋆ is so far away that digits would be lost, U is the error of chosen
 * outputs instead. The same choices as forgetless.engines.reference. */
const Problem = (() => {
  const { dot, spectrum, leastNorm, spanningRows } = Spectrum;
  const ROUNDING = 2e-13; // of a target that counts as met
  const CANCELS = 1e4; // how much larger than their sum terms may be

  // tasks: [{X: Float64Array (n·d), y: Float64Array (n), n, count?, floor?}]
  function of(tasks, d) {
    const parts = tasks.map((task) => spectrum(task.X, task.y, task.n, d));
    const offsets = [0],
      owner = [];
    parts.forEach((part, m) => {
      offsets.push(offsets[m] + part.r);
      for (let i = 0; i < part.r; i++) owner.push(m);
    });
    const n = owner.length,
      counts = tasks.map((task) => task.count || 1),
      M = counts.reduce((a, b) => a + b, 0);
    const all = { d, n, M, offsets, owner, counts, probability: counts.map((count) => count / M) };
    all.s = Float64Array.from(parts.flatMap((part) => part.s));
    all.V = new Float64Array(n * d);
    parts.forEach((part, m) => all.V.set(part.V, offsets[m] * d));
    all.targets = Float64Array.from(parts.flatMap((part) => part.fit.map((x, i) => x / part.s[i])));
    all.radii = Float64Array.from(owner, (m) => parts[m].s[0]);
    all.radius = Math.max(0, ...parts.map((part) => part.s[0] || 0));
    // With independent rows every y can be met, and what is left is rounding.
    all.floors = parts.map((part, m) => (tasks[m].floor || 0) + (part.r === tasks[m].n ? 0 : 0.5 * part.rest));
    all.floor = all.floors.reduce((sum, x, m) => sum + x * all.probability[m], 0);
    all.w = Float64Array.from(owner, (m) => all.probability[m]);
    all.teacher = teacherOf(all);
    all.distance = Math.sqrt(dot(all.teacher, 0, all.teacher, 0, d));
    return { ...all, ...measured(all) };
  }

  // The joint least-squares solution nearest to the origin.
  function teacherOf({ d, n, V, s, radii, targets, w }) {
    if (!n) return new Float64Array(d);
    // Relative to its own task a direction is known to eps·radius/s: that decides the rank, whatever the tasks' scales.
    const own = s.map((x, j) => x / radii[j]),
      scaled = (by) => V.map((x, i) => x * by[(i / d) | 0]);
    const found = leastNorm(
      scaled(own),
      targets.map((x, j) => x * own[j]),
      n,
      d,
    );
    const gap = targets.map((x, j) => Math.abs(own[j] * (dot(V, j * d, found.z, 0, d) - x)));
    if (Math.max(...gap) <= 1e-9 * Math.max(...targets.map((x, j) => Math.abs(own[j] * x)))) return found.z;
    // Otherwise weigh as the losses do, in the coordinates that are determined.
    const r = found.r,
      weights = s.map((x, j) => x * Math.sqrt(w[j])),
      A = new Float64Array(n * r);
    for (let j = 0; j < n; j++)
      for (let i = 0; i < r; i++) A[j * r + i] = weights[j] * dot(V, j * d, found.V, i * d, d);
    const { z } = leastNorm(
        A,
        targets.map((x, j) => x * weights[j]),
        n,
        r,
      ),
      teacher = new Float64Array(d);
    for (let i = 0; i < r; i++) for (let j = 0; j < d; j++) teacher[j] += z[i] * found.V[i * d + j];
    return teacher;
  }

  // Errors around the joint solution, unless terms there cancel that do not in outputs.
  function measured(all) {
    const { d, n, V, s, targets, radii, teacher } = all;
    // A basis that begins with the strongest directions: what a strong task has learned then stays apart from the rest,
    // whose rounding it would magnify.
    const { chosen, basis, C } = spanningRows(V, s, n, d),
      q = basis.length,
      into = (x) => Float64Array.from(basis, (each) => dot(each, 0, x, 0, d)),
      rows = new Float64Array(n * q);
    for (let j = 0; j < n; j++) rows.set(into(V.subarray(j * d, j * d + d)), j * q);
    chosen.forEach((j, i) => rows.fill(0, j * q + i + 1, j * q + q)); // zero but for rounding
    const missing = targets.map((x, j) => x - dot(V, j * d, teacher, 0, d)),
      far = all.distance;
    const met = missing.every((x, j) => Math.abs(x) <= ROUNDING * (radii[j] / s[j]) * (Math.abs(targets[j]) + far));
    const around = maps(n, q, rows, rows, into(teacher.map((x) => -x)), met ? null : missing.map((x) => -x));
    const before = targets.reduce((sum, x, j) => sum + (s[j] * x) ** 2, 0),
      size = terms(around, s);
    if (size <= CANCELS * before) return { ...around, q, realizable: met };
    const errors = targets.map((x) => -x),
      rounding = targets.map((x, j) => (ROUNDING * radii[j] * Math.abs(x)) / s[j]);
    const left = new Float64Array(n * q),
      state = Float64Array.from(chosen, (i) => errors[i]);
    let conflict = false;
    const off = errors.map((error, j) => {
      let sum = 0,
        slack = rounding[j];
      chosen.forEach((i, l) => {
        left[j * q + l] = dot(rows, j * q, rows, i * q, q);
        sum += C[j * q + l] * state[l];
        slack += Math.abs(C[j * q + l]) * rounding[i];
      });
      conflict = conflict || Math.abs(error - sum) > slack;
      return error - sum;
    });
    const outputs = maps(n, q, left, C, state, conflict ? off : null);
    return terms(outputs, s) < 0.1 * size
      ? { ...outputs, q, realizable: !conflict }
      : { ...around, q, realizable: met };
  }

  // L, R (n × D) and the state before the first step; ``off`` is the last column of R where no model fits all tasks.
  function maps(n, q, left, right, state, off) {
    if (!off) return { D: q, L: left, R: right, state };
    const D = q + 1,
      L = new Float64Array(n * D),
      R = new Float64Array(n * D);
    for (let j = 0; j < n; j++) {
      L.set(left.subarray(j * q, j * q + q), j * D);
      R.set(right.subarray(j * q, j * q + q), j * D);
      R[j * D + q] = off[j];
    }
    return { D, L, R, state: Float64Array.of(...state, 1) };
  }

  function terms({ D, R, state }, s) {
    let sum = 0;
    s.forEach((x, j) => {
      let row = 0;
      for (let a = 0; a < D; a++) row += Math.abs(R[j * D + a] * state[a]);
      sum += (x * row) ** 2;
    });
    return sum;
  }

  return { of };
})();
