"use strict";
/* Everything that a link restores: the state as a short text after the # of the address, and back. */
const State = (() => {
  const { ZERO } = Schedules;

  const START = {
    kind: "two",
    angle: 15,
    d: 10,
    M: 10,
    rows: 2,
    rare: 2,
    weight: 7,
    cosine: 0.3,
    noise: 0,
    seed: 1,
    k: 60,
    order: "with",
    orderSeed: 1,
    metric: "average_loss",
    scheme: "ridge",
    n: 4,
    size: 0.5,
    schedule: { preset: "constant", scale: 1 },
    log: false,
  };
  // What is shown before anything is chosen, as a link: noisy labels, where increasing strengths win clearly
  const FIRST = "kind=random&d=2&M=3&rows=1&noise=0.1&seed=9&k=200&p=increasing&c=0.05";
  const PROBLEM = ["kind", "d", "M", "rows", "noise", "seed", "k", "order", "metric", "scheme"];
  const NUMBERS = {
    angle: [1, 90],
    d: [1, 40],
    M: [1, 40],
    rows: [1, 40],
    rare: [1, 6],
    weight: [0.5, 40],
    cosine: [0, 0.95],
    noise: [0, 10],
    seed: [1, 1e6],
    k: [1, 5000],
    orderSeed: [1, 1e6],
    n: [1, 1000],
    size: [1e-3, 1],
  };
  const WHOLE = ["d", "M", "rows", "rare", "seed", "k", "orderSeed", "n"];
  const WORDS = {
    kind: ["two", "random", "rare", "data"],
    order: ["with", "cyclic", "one"],
    metric: ["average_loss", "seen_loss", "forgetting"],
    scheme: ["ridge", "size", "budget"],
  };

  // Levels as runs of [count × ] difference, in base 36: a smooth line of 500 steps takes about 1 kB.
  function packed(levels) {
    const parts = [];
    let before = 0,
      count = 1;
    for (let t = 0; t < levels.length; t++) {
      const value = levels[t] === ZERO ? "_" : (levels[t] - before).toString(36);
      if (levels[t] !== ZERO) before = levels[t];
      const repeat = value === "_" || value === "0";
      if (t && repeat && parts[parts.length - 1] === value) count++;
      else {
        if (count > 1) parts.push(parts.pop() + "*" + count.toString(36));
        count = 1;
        parts.push(value);
      }
    }
    if (count > 1) parts.push(parts.pop() + "*" + count.toString(36));
    return parts.join("~");
  }

  function unpacked(text, k, scheme) {
    const levels = new Int16Array(k),
      { low, high, zero } = Schedules.SCHEMES[scheme];
    let before = 0,
      t = 0;
    for (const part of text.split("~")) {
      const [value, count] = part.split("*"),
        difference = parseInt(value, 36);
      for (let i = count ? parseInt(count, 36) : 1; i > 0 && t < k; i--, t++) {
        if (value === "_" && zero) levels[t] = ZERO;
        else {
          if (Number.isNaN(difference)) return null;
          before = Math.max(1000 * low, Math.min(1000 * high, before + difference));
          levels[t] = before;
        }
      }
    }
    return t === k ? levels : null;
  }

  function toText(state) {
    const query = new URLSearchParams();
    for (const name of [...Object.keys(WORDS), ...Object.keys(NUMBERS)])
      if (state[name] !== START[name]) query.set(name, state[name]);
    if (state.log) query.set("log", 1);
    const { preset, scale } = state.schedule;
    query.set("p", preset);
    // What was given is in the page that it was given to; others get it on the grid of what is drawn.
    if (preset === "drawn" || preset === "given")
      query.set("l", packed((preset === "given" ? Schedules.drawn(state) : state.schedule).levels));
    else if (scale !== undefined) query.set("c", scale);
    return query.toString();
  }

  // Anything that is not understood keeps its first value: a link may be old, or of a stranger.
  function fromText(text, first = START) {
    const state = { ...first },
      query = new URLSearchParams(text);
    for (const [name, words] of Object.entries(WORDS))
      if (words.includes(query.get(name))) state[name] = query.get(name);
    for (const [name, [low, high]] of Object.entries(NUMBERS)) {
      const value = query.has(name) ? Number(query.get(name)) : NaN;
      if (Number.isFinite(value))
        state[name] = Math.min(high, Math.max(low, WHOLE.includes(name) ? Math.round(value) : value));
    }
    if (query.has("log")) state.log = query.get("log") === "1";
    const preset = query.get("p"),
      scale = query.has("c") ? Number(query.get("c")) : undefined;
    if (preset === "given" && first.schedule.preset === "given" && first.k === state.k && first.scheme === state.scheme)
      return state;
    if (preset === "drawn" || preset === "given") {
      const levels = unpacked(query.get("l") || "", state.k, state.scheme);
      if (levels) state.schedule = { preset: "drawn", levels };
    } else if (preset && Object.hasOwn(Schedules.PRESETS[state.scheme], preset)) {
      state.schedule = scale > 0 && scale < 1e6 ? { preset, scale } : { preset };
    }
    return fitting(state);
  }

  // A schedule that does not belong to the scheme, or to so many steps, gives way to one that does.
  function fitting(state) {
    const { preset, levels, values } = state.schedule,
      list = levels || values;
    if (list ? list.length === state.k : Object.hasOwn(Schedules.PRESETS[state.scheme], preset)) return state;
    return { ...state, schedule: { preset: "constant" } };
  }

  // Tasks, order and measure of the first view, whatever the schedule
  function isFirst(state) {
    const first = fromText(FIRST);
    return PROBLEM.every((name) => state[name] === first[name]);
  }

  return { START, FIRST, toText, fromText, isFirst };
})();
