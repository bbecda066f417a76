"use strict";
/* Task collections to look at: two at an angle, random ones, rare ones. Each is
 * {d, tasks: [{X, y, n, count}], code}: code is the Python expression for the same tasks, or null for literals. */
const Tasks = (() => {
  // mulberry32, and Box–Muller on top: small, and the same everywhere
  function uniform(seed) {
    let a = (seed * 0x9e3779b1) >>> 0;
    return () => {
      a = (a + 0x6d2b79f5) | 0;
      let t = Math.imul(a ^ (a >>> 15), 1 | a);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  function normal(seed) {
    const u = uniform(seed);
    return () => Math.sqrt(-2 * Math.log(1 - u())) * Math.cos(2 * Math.PI * u());
  }

  const one = (row, w, count) => ({
    X: Float64Array.from(row),
    y: Float64Array.of(row.reduce((sum, x, i) => sum + x * w[i], 0)),
    n: 1,
    count,
  });

  function two({ angle }) {
    const theta = (angle * Math.PI) / 180;
    const tasks = [
      [1, 0],
      [Math.cos(theta), Math.sin(theta)],
    ].map((row) => one(row, [1, 0], 1));
    return { d: 2, tasks, code: `fl.theory.constructions.two_tasks(np.deg2rad(${angle}))` };
  }

  function random({ d, M, rows, seed }) {
    const g = normal(seed),
      w = Array.from({ length: d }, () => g() / Math.sqrt(d));
    const tasks = Array.from({ length: M }, () => {
      const X = Float64Array.from({ length: rows * d }, () => g() / Math.sqrt(d)),
        y = new Float64Array(rows);
      for (let i = 0; i < rows; i++) for (let j = 0; j < d; j++) y[i] += X[i * d + j] * w[j];
      return { X, y, n: rows, count: 1 };
    });
    return { d, tasks, code: null };
  }

  // Python's round: halves go to the even neighbour
  const rounded = (x) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

  function rare({ rare: n, weight, cosine, k }) {
    const d = n + 1,
      M = Math.max(d, rounded(k / weight)),
      rows = Array.from({ length: d }, () => Array(d).fill(0));
    for (let i = 0; i < n; i++) {
      // Cholesky of ones on the diagonal and the cosine beside it
      for (let j = 0; j <= i; j++) {
        let sum = i === j ? 1 : cosine;
        for (let l = 0; l < j; l++) sum -= rows[i][l] * rows[j][l];
        rows[i][j] = i === j ? Math.sqrt(sum) : sum / rows[j][j];
      }
    }
    rows[n][n] = 1;
    const w = Array(d).fill(1 / Math.sqrt(d));
    const tasks = rows.map((row, i) => one(row, w, i < n ? 1 : M - n));
    return { d, tasks, code: `fl.theory.constructions.rare_tasks(k, n_rare=${n}, weight=${weight}, cosine=${cosine})` };
  }

  // Labels get independent noise; copies of a task then differ.
  function noisy(found, noise, seed) {
    if (!noise) return found;
    const g = normal(seed + 1000),
      tasks = [];
    for (const task of found.tasks) {
      for (let copy = 0; copy < task.count; copy++)
        tasks.push({ ...task, count: 1, y: task.y.map((x) => x + noise * g()) });
    }
    return { d: found.d, tasks, code: null };
  }

  const KINDS = { two, random, rare };

  function make(state, given) {
    if (state.kind === "data") return given;
    return noisy(KINDS[state.kind](state), state.noise, state.seed);
  }

  return { make, uniform };
})();
