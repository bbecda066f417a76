"use strict";
/* The page: the state in the middle, what follows from it computed again when it changes, and drawn. */
const App = (() => {
  const $ = (id) => document.getElementById(id),
    { shown } = Plot,
    data = JSON.parse($("data").textContent);
  const LARGEST = 16e6; // numbers that a gradient may keep
  const METRICS = {
    average_loss: "loss over all tasks",
    seen_loss: "loss on the tasks seen",
    forgetting: "forgetting",
  };
  const LONGEST = 3e8; // products in a curve: about a second

  const first = { ...State.START, ...data.state };
  let state = opened();
  const given = data.tasks ? collection(data.tasks) : null; // tasks that the page came with
  let tasks,
    prob,
    now,
    references = {};
  let worker = 0,
    cost = 0;
  const undo = [],
    draw = new Draw.DrawChart($("draw"), changed),
    losses = new Losses.LossChart($("loss"));

  // The state of a link, of the tasks that the page came with, or of the first view
  function opened() {
    if (location.hash.length > 1 || first.kind === "data") return State.fromText(location.hash.slice(1), first);
    return { ...State.fromText(State.FIRST), ...data.state };
  }

  function collection({ d, tasks: list }) {
    const one = ({ X, y, floor }) => ({
      X: Float64Array.from(X.flat()),
      y: Float64Array.from(y),
      n: y.length,
      count: 1,
      floor,
    });
    return { d, tasks: list.map(one), code: null };
  }

  // ---- computing ---------------------------------------------------------------------------------------------------
  // Steps that are computed here in about a second
  function mostSteps() {
    if (state.order !== "with") return Infinity;
    const { n, D, offsets } = prob,
      ranks = offsets.slice(1).map((o, m) => o - offsets[m]),
      r = Math.max(1, ...ranks);
    const one = 2 * n * D * (D + r),
      each = state.metric === "average_loss" ? 1 : ranks.length + 1;
    return Math.max(1, Math.floor(LONGEST / (one * each)));
  }

  // The order as task numbers for the engine, and as those of Python, where copies are tasks of their own
  function orderNow() {
    const all = tasks.tasks.flatMap((task, m) => Array(task.count).fill(m));
    if (state.order === "cyclic") return { numbers: all, own: all.map((_, i) => i) };
    if (state.order !== "one") return null;
    const u = Tasks.uniform(state.orderSeed),
      own = Array.from({ length: state.k }, () => Math.floor(u() * all.length));
    return { numbers: own.map((i) => all[i]), own };
  }

  function planOf(heights) {
    const order = orderNow(),
      { k, metric } = state;
    return { ...Schedules.plan(state, prob.radius ** 2, heights), k, order: order && order.numbers, metric };
  }

  // Tasks, order or measure changed: all is new. What takes longer follows when there is time.
  function everything() {
    if (state.kind === "data" && !given) state = { ...state, kind: "two" }; // a link from a page with tasks inside
    tasks = Tasks.make(state, given);
    prob = Engine.problem(tasks.tasks, tasks.d);
    references = {};
    App.settled = false;
    const most = mostSteps(),
      cut = state.k > most;
    if (cut) state = { ...state, k: most, schedule: Schedules.resampled(state.schedule, state.scheme, most) };
    Controls.show();
    const one = prob.realizable ? "one model fits all" : "no model fits all",
      plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
    $("facts").textContent =
      `${plural(prob.M, "task")}, ${plural(tasks.d, "feature")}; ${one}; R² = ${shown(prob.radius ** 2)}, D = ${shown(prob.distance)}`;
    tell(
      $("status"),
      cut
        ? `Only ${most} steps: more would take long here; fl.expect computes them.`
        : Results.reason({ state, prob }),
    );
    $("case").hidden = !State.isFirst(state);
    const preset = (name) => Schedules.heights({ ...state, schedule: { preset: name } });
    references.theorem = reference("theorem", preset("increasing"));
    if (state.scheme === "ridge") references.none = reference("none", preset("none"));
    update();
    compare();
  }

  const reference = (name, heights, more) => ({ name, heights, values: Engine.curve(prob, planOf(heights)), ...more });

  // The schedule changed: curve, gradient unless a hand is drawing and it takes long, and both charts
  function update(drawing = false) {
    const began = performance.now(),
      heights = Schedules.heights(state),
      plan = planOf(heights);
    const fits = Engine.kept(prob, plan) <= LARGEST,
      wanted = fits && !(drawing && cost > 80);
    now = wanted
      ? { heights, ...Engine.gradient(prob, plan) }
      : { heights, loss: Engine.curve(prob, plan), slope: null };
    now.note = wanted
      ? ""
      : fits
        ? "the gradient follows when you let go"
        : "no gradient here: it would need too much memory";
    // The first frames are slow, before the browser has compiled: try again now and then.
    cost = wanted ? 0.5 * cost + 0.5 * (performance.now() - began) : 0.95 * cost;
    render();
    App.frames++;
    App.milliseconds = performance.now() - began;
  }

  // −∂loss/∂ln(λ + λ₀): what a relative change of a step would gain; λ₀ is a ten-thousandth of R²
  function pull() {
    if (!now.slope) return null;
    const { values } = planOf(now.heights),
      least = state.scheme === "ridge" ? 1e-4 * prob.radius ** 2 : 0;
    return now.slope.map((x, t) => -x * (values[t] + least));
  }

  // What takes longer than a frame, until something changes
  function compare() {
    const mine = ++worker;
    const live = () => mine === worker,
      busy = () => draw.dragging,
      gradients = () => Engine.kept(prob, planOf(now.heights)) <= LARGEST && cost < 700;
    Search.run({ state, prob, planOf, theorem: references.theorem, live, busy, gradients }, (name, found) => {
      if (found.heights) references[name] = reference(name, found.heights, found);
      else references[name] = found;
      if (found.heights) render();
      else showResults();
      App.settled = name === "optimum" && (!!found.heights || found.final === true);
    });
  }

  // ---- showing -----------------------------------------------------------------------------------------------------
  const bounds = () => Results.guarantees({ state, prob });

  const compared = () =>
    ["none", "theorem", "constant", "optimum"]
      .filter((name) => references[name] && references[name].values)
      .map((name) => references[name]);
  const curves = () => [...compared(), { name: "yours", values: now.loss }];

  function showResults() {
    Results.render($("results").tBodies[0], { state, now, references }, bounds());
    $("metric-title").textContent = `${state.metric === "forgetting" ? "forgetting" : "loss"} after ${state.k} steps`;
  }

  function render() {
    const { scheme, k, metric } = state,
      chance = ["cyclic", "one"].includes(state.order) ? "" : "expected ";
    const title = `${chance}${METRICS[metric]}`;
    draw.render({
      scheme,
      k,
      heights: now.heights,
      others: compared(),
      pull: pull(),
      note: now.note,
      hint: !undo.length && state.schedule.preset !== "drawn",
    });
    losses.render({ k, title, logSteps: state.log, curves: curves(), bounds: bounds() });
    showResults();
  }

  // ---- changes -----------------------------------------------------------------------------------------------------
  let frame = 0,
    drawing = false,
    saving = 0;
  function soon(quick) {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => update(quick));
  }

  // By hand: levels of all steps, or null when the hand lets go
  function changed(levels, finished) {
    if (levels) {
      if (!drawing) remember();
      drawing = !finished;
      state.schedule = { preset: "drawn", levels };
      Controls.show();
    }
    if (finished) {
      drawing = false;
      keep();
    }
    soon(!finished);
  }

  function remember() {
    undo.push({ schedule: state.schedule, scheme: state.scheme, k: state.k });
    if (undo.length > 100) undo.shift();
  }

  function set(change) {
    const next = { ...state, ...change };
    if (change.scheme && change.scheme !== state.scheme && !change.schedule) next.schedule = { preset: "constant" };
    if (change.k && change.k !== state.k && !change.schedule)
      next.schedule = Schedules.resampled(state.schedule, state.scheme, change.k);
    state = next;
    everything();
    keep();
  }

  // Another schedule on the same tasks
  function take(schedule, again = false) {
    if (!again) remember();
    state.schedule = schedule;
    Controls.show();
    soon(again);
    keep();
  }

  function back() {
    const before = undo.pop();
    if (before) set(before);
  }

  function keep() {
    clearTimeout(saving);
    saving = setTimeout(() => {
      $("spoken").textContent = `${METRICS[state.metric]} after ${state.k} steps: ${shown(now.loss[state.k])}`;
      try {
        history.replaceState(null, "", `#${State.toText(state)}`);
      } catch {
        // inside a notebook there is no address
      }
    }, 120);
  }

  function tell(node, text, bad = false) {
    node.textContent = text;
    node.classList.toggle("bad", bad);
  }

  // Another link in the same page
  addEventListener("hashchange", () => {
    if (location.hash.slice(1) === State.toText(state)) return;
    state = opened();
    everything();
  });

  return {
    data,
    draw,
    losses,
    undo,
    set,
    take,
    back,
    tell,
    everything,
    render,
    bounds,
    curves,
    orderNow,
    frames: 0,
    milliseconds: 0,
    settled: false,
    get state() {
      return state;
    },
    get tasks() {
      return tasks;
    },
    get prob() {
      return prob;
    },
    get now() {
      return now;
    },
    get references() {
      return references;
    },
  };
})();
