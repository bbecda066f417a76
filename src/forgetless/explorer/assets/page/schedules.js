"use strict";
/* Schedules: what is drawn, the presets, and both as numbers for the engine and as Python code.
 *
 * A level is the height of a step on the chart: log10 of λ/R² (ridge), of γR² (size) or of N (budget), in thousandths;
 * ZERO is λ = 0. A schedule is {preset, scale} or {preset: "drawn", levels} or {preset: "given", values}. */
const Schedules = (() => {
  const ZERO = -32768;
  const SCHEMES = {
    ridge: {
      low: -4,
      high: 3,
      zero: true,
      symbol: "λ",
      title: "regularization of each step, λₜ / R²",
      more: "a larger λ",
      less: "a smaller λ",
    },
    size: {
      low: -4,
      high: 0,
      zero: false,
      symbol: "γ",
      title: "step size of each step, γₜ R²",
      more: "longer steps",
      less: "shorter steps",
    },
    budget: {
      low: 0,
      high: 3,
      zero: false,
      symbol: "N",
      title: "gradient steps of each step, Nₜ",
      more: "more steps",
      less: "fewer steps",
    },
  };
  const decay = (t, k) => (k - t + 1) / (k + 1); // (k−t+2)/(k+1), t counted from 0 here

  // Heights as plain numbers in units of R² (ridge), 1/R² (size) or 1 (budget), with their Python code.
  const PRESETS = {
    ridge: {
      none: { title: "no regularization", of: () => 0, code: () => "fl.Projection()" },
      constant: {
        title: "constant",
        scaled: 1,
        of: (t, k, c) => c,
        code: (c) => `lambda k, radius: fl.Ridge(${c} * radius**2)`,
      },
      fixed: { title: "fixed", least: 3, of: (t, k) => Math.log(k) - 1, code: () => "fl.schedules.fixed()" },
      increasing: {
        title: "increasing (theorem)",
        scaled: 13 / 3,
        of: (t, k, c) => c / decay(t, k),
        code: (c) => `fl.schedules.increasing(scale=${c})`,
      },
      quarter: {
        title: "increasing, scale 1/4",
        of: (t, k) => 0.25 / decay(t, k),
        code: () => "fl.schedules.increasing(scale=1 / 4)",
      },
      minimax: {
        title: "minimax",
        of: (t, k) => (t + 1) / (k - t),
        code: () => "fl.schedules.minimax()",
      },
      ramp: {
        title: "ramp at the end",
        scaled: 1,
        of: (t, k, c) => c * Math.max(0, t + 1 - k + Math.max(1, evenly(k / 8))),
        code: (c) => `fl.schedules.end_ramp(scale=${c})`,
      },
    },
    size: {
      constant: { title: "constant", scaled: 0.5, of: (t, k, c) => c },
      fixed: {
        title: "fixed",
        least: 3,
        of: (t, k, c, N) => -Math.expm1(Math.log1p(-1 / Math.log(k)) / N),
        code: (c, N) => `fl.schedules.fixed_budget(n_steps=${N})`,
      },
      increasing: {
        title: "increasing (theorem)",
        scaled: 13 / 3,
        of: (t, k, c, N) => decay(t, k) / c / N,
        code: (c, N) => `fl.schedules.increasing_budget(n_steps=${N}, scale=${c})`,
      },
      minimax: {
        title: "minimax",
        of: (t, k, c, N) => (N === 1 ? (k - t) / (k + 1) : -Math.expm1(Math.log((t + 1) / (k + 1)) / N)),
        code: (c, N) => `fl.schedules.minimax_budget(n_steps=${N})`,
      },
    },
    budget: {
      constant: { title: "constant", scaled: 4, of: (t, k, c) => Math.max(1, Math.round(c)) },
      increasing: {
        title: "decreasing (theorem)",
        scaled: 13 / 3,
        of: (t, k, c, N, size) => Math.max(1, Math.round(decay(t, k) / c / size)),
      },
    },
  };
  const evenly = (x) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

  const find = (scheme, schedule) => PRESETS[scheme][schedule.preset];

  // Heights in the units of the chart, one for each step
  function heights(state) {
    const { scheme, schedule, k, n, size } = state;
    if (schedule.preset === "drawn") return Float64Array.from(schedule.levels, (v) => height(scheme, v));
    if (schedule.preset === "given") return Float64Array.from(schedule.values);
    const preset = find(scheme, schedule),
      scale = schedule.scale ?? preset.scaled;
    return Float64Array.from({ length: k }, (_, t) => preset.of(t, k, scale, n, size));
  }

  const height = (scheme, v) =>
    v === ZERO ? 0 : scheme === "budget" ? Math.max(1, Math.round(10 ** (v / 1000))) : 10 ** (v / 1000);

  function level(scheme, x) {
    const { low, high, zero } = SCHEMES[scheme];
    if (zero && x <= 0) return ZERO;
    return Math.round(1000 * Math.min(high, Math.max(low, Math.log10(x))));
  }

  // What the engine takes: scheme, values and the other parameter
  function plan(state, square, own = heights(state)) {
    const unit = square || 1,
      { scheme } = state;
    const values = scheme === "ridge" ? own.map((x) => x * square) : scheme === "size" ? own.map((x) => x / unit) : own;
    return { scheme, values, other: scheme === "size" ? state.n : scheme === "budget" ? state.size / unit : null };
  }

  // A drawn copy of any schedule, on the grid of levels
  const drawn = (state, own = heights(state)) => ({
    preset: "drawn",
    levels: Int16Array.from(own, (x) => level(state.scheme, x)),
  });

  // The same shape over another number of steps
  function resampled(schedule, scheme, k) {
    if (schedule.preset !== "drawn" && schedule.preset !== "given") return schedule;
    const levels = schedule.levels || Int16Array.from(schedule.values, (x) => level(scheme, x)),
      from = levels.length;
    const pick = (t) => {
      const x = k > 1 ? (t * (from - 1)) / (k - 1) : 0,
        i = Math.min(from - 1, Math.floor(x)),
        j = Math.min(from - 1, i + 1);
      if (levels[i] === ZERO || levels[j] === ZERO) return levels[Math.round(x)];
      return Math.round(levels[i] + (x - i) * (levels[j] - levels[i]));
    };
    return { preset: "drawn", levels: Int16Array.from({ length: k }, (_, t) => pick(t)) };
  }

  return { ZERO, SCHEMES, PRESETS, find, heights, height, level, plan, drawn, resampled };
})();
