"use strict";
/* The best constant, and all strengths at once by descent: L-BFGS with exact gradients on ln(1 + λ_t/λ₀) ≥ 0, and on the
 * logarithm of γ_t or N_t, within what the chart shows. The loss is not convex: it is a local optimum, found from the best
 * of several starts. */
const Descent = (() => {
  // Coordinates x of heights h, with bounds
  function coordinates(scheme, unit) {
    const { low, high } = Schedules.SCHEMES[scheme],
      top = 10 ** high;
    if (scheme === "ridge") {
      return {
        to: (h) => Math.log1p(h / unit),
        from: (x) => unit * Math.expm1(x),
        slope: (x) => unit * Math.exp(x),
        low: 0,
        high: Math.log1p(top / unit),
      };
    }
    return { to: Math.log, from: Math.exp, slope: Math.exp, low: Math.log(10 ** low), high: Math.log(top) };
  }

  // Best constant height: a grid, then golden section around its best
  function* constant(loss, scheme) {
    const { low, high, zero } = Schedules.SCHEMES[scheme],
      tried = [];
    const at = (v) => ({ v, height: scheme === "budget" ? Math.max(1, Math.round(10 ** v)) : 10 ** v });
    const measure = (point) => ({ ...point, loss: loss(point.height) });
    for (let v = low; v <= high + 1e-9; v += 0.5) {
      tried.push(measure(at(v)));
      yield;
    }
    const best = () => tried.reduce((a, b) => (b.loss < a.loss ? b : a));
    const middle = best();
    let a = Math.max(low, middle.v - 0.5),
      b = Math.min(high, middle.v + 0.5);
    const ratio = (Math.sqrt(5) - 1) / 2;
    for (let i = 0; i < 16; i++) {
      const [c, d] = [b - ratio * (b - a), a + ratio * (b - a)].map((v) => measure(at(v)));
      tried.push(c, d);
      if (c.loss < d.loss) b = d.v;
      else a = c.v;
      yield;
    }
    if (zero) tried.push(measure({ v: null, height: 0 }));
    return best();
  }

  // gradient(heights) → {loss (a number), slope by height}; yields {loss, heights} after every evaluation
  function* run(gradient, scheme, unit, start, rounds = 120) {
    const c = coordinates(scheme, unit),
      k = start.length,
      clip = (x) => Math.min(c.high, Math.max(c.low, x));
    const evaluate = (x) => {
      const { loss, slope } = gradient(Float64Array.from(x, c.from));
      return { x, loss, g: slope.map((value, t) => value * c.slope(x[t])) };
    };
    let now = evaluate(Float64Array.from(start, (h) => clip(c.to(Math.max(h, scheme === "ridge" ? 0 : 1e-9)))));
    const pairs = [];
    for (let round = 0; round < rounds; round++) {
      const free = now.x.map((x, t) => ((x <= c.low && now.g[t] > 0) || (x >= c.high && now.g[t] < 0) ? 0 : 1));
      const size = Math.max(...now.g.map((g, t) => Math.abs(g) * free[t]));
      if (!(size > 1e-7 * Math.abs(now.loss))) break;
      const direction = twoLoop(now.g, pairs, free, size);
      let step = pairs.length ? 1 : 0.5,
        next = null;
      for (let halving = 0; halving < 12; halving++, step /= 3) {
        const x = now.x.map((value, t) => clip(value + step * direction[t]));
        const trial = evaluate(x),
          fall = x.reduce((sum, value, t) => sum + now.g[t] * (value - now.x[t]), 0);
        yield { loss: now.loss, round };
        if (trial.loss <= now.loss + 1e-4 * Math.min(fall, 0) && trial.loss < now.loss) {
          next = trial;
          break;
        }
      }
      if (!next) {
        if (!pairs.length) break;
        pairs.length = 0; // start again along the gradient
        continue;
      }
      const s = next.x.map((x, t) => x - now.x[t]),
        y = next.g.map((g, t) => g - now.g[t]);
      const sy = s.reduce((sum, value, t) => sum + value * y[t], 0),
        yy = y.reduce((sum, value) => sum + value * value, 0);
      if (sy > 1e-10 * yy * 1e-6) pairs.push({ s, y, sy, yy });
      if (pairs.length > 8) pairs.shift();
      const small = now.loss - next.loss < 1e-7 * Math.abs(now.loss);
      now = next;
      if (small) break;
    }
    return { loss: now.loss, heights: Float64Array.from(now.x, c.from) };
  }

  function twoLoop(g, pairs, free, size) {
    const q = g.map((value, t) => value * free[t]),
      dot = (a, b) => a.reduce((sum, value, t) => sum + value * b[t] * free[t], 0);
    const alphas = [];
    for (let i = pairs.length - 1; i >= 0; i--) {
      const alpha = dot(pairs[i].s, q) / pairs[i].sy;
      alphas.unshift(alpha);
      for (let t = 0; t < q.length; t++) q[t] -= alpha * pairs[i].y[t];
    }
    const last = pairs[pairs.length - 1],
      scale = last ? last.sy / last.yy : 1 / size;
    for (let t = 0; t < q.length; t++) q[t] *= scale;
    pairs.forEach((pair, i) => {
      const beta = dot(pair.y, q) / pair.sy;
      for (let t = 0; t < q.length; t++) q[t] += pair.s[t] * (alphas[i] - beta);
    });
    const down = q.map((value, t) => -value * free[t]);
    return dot(down, g) < 0 ? down : g.map((value, t) => (-value * free[t]) / size);
  }

  return { constant, run };
})();
