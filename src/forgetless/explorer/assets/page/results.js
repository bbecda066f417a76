"use strict";
/* The table below the charts, which is their legend too: losses, what they are compared with, and what is guaranteed. */
const Results = (() => {
  const { shown } = Plot,
    { constants } = JSON.parse(document.getElementById("data").textContent);

  // Upper bounds of the final loss that hold for what is on the page
  function guarantees({ state, prob }) {
    const unit = prob.radius ** 2 * prob.distance ** 2,
      found = [];
    if (!reason({ state, prob })) {
      const seen = state.metric === "seen_loss",
        constant = seen ? constants.seen : constants.paper;
      found.push({
        name: "paper",
        value: (constant * unit) / (state.k + 1),
        title: "the paper's guarantee",
        note: `${constant} R²D²/(k+1), for the theorem's schedule`,
      });
      const every = seen || (state.scheme === "size" && state.n > 1) ? null : constants[state.scheme];
      if (every)
        found.push({
          name: "computed",
          value: (every * unit) / (state.k + 1),
          title: "the computed upper bound",
          note: `${every} R²D²/(k+1), for the theorem's schedule, proved by computer`,
        });
    }
    return found;
  }

  // Why the guarantees do not apply; empty where they do
  function reason({ state, prob }) {
    if (state.order !== "with") return "No guarantee is shown: those here are for random orders with replacement.";
    if (!prob.realizable) return "No guarantee is shown: those here are for tasks that one model fits, and these disagree.";
    if (state.metric === "forgetting") return "No guarantee applies: they are for losses, not for forgetting.";
    if (state.scheme === "budget") return "No guarantee is shown: they are for step sizes that follow from N.";
    return state.k < 2 ? "No guarantee applies: they are for k ≥ 2 steps." : "";
  }

  const THEOREM = {
    ridge: "λₜ = 13/3 · R² (k+1)/(k−t+2)",
    size: "γₜ = 3/13 · (k−t+2)/(k+1) / (N R²)",
    budget: "Nₜ = 3/13 · (k−t+2)/(k+1) / (γR²), rounded",
  };

  function rowsOf({ state, now, references }, bounds) {
    const last = (each) => (each && each.values ? each.values[state.k] : null),
      { none, constant, theorem, optimum } = references;
    const { symbol } = Schedules.SCHEMES[state.scheme],
      unit = { ridge: " R²", size: " / R²", budget: "" }[state.scheme];
    const rows = [{ name: "yours", title: "yours", value: now.loss[state.k] }];
    if (none) rows.push({ name: "none", title: "no regularization", note: "λ = 0", value: last(none), take: true });
    const height = constant ? `${symbol} = ${shown(constant.height)}${constant.height ? unit : ""}` : "searching …";
    rows.push({ name: "constant", title: "best constant", note: height, value: last(constant), take: true });
    if (theorem)
      rows.push({
        name: "theorem",
        title: "theorem's schedule",
        note: THEOREM[state.scheme],
        value: last(theorem),
        take: true,
      });
    const note = optimum ? optimum.waiting || "all k strengths, by exact gradients" : "waits for the best constant …";
    rows.push({ name: "optimum", title: "optimum by descent", note, value: last(optimum), take: true });
    return [...rows, ...bounds.map((bound) => ({ ...bound, bound: true }))];
  }

  function render(body, view, bounds) {
    const rows = rowsOf(view, bounds),
      mine = rows[0].value;
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach((row, i) => {
      const line = body.rows[i] || empty(body),
        [name, value, ratio, take] = line.cells,
        button = take.children[0];
      const known = row.value !== null && !Number.isNaN(row.value);
      line.className = row.name;
      name.children[0].className = `key ${row.name}`;
      name.children[1].textContent = row.title;
      name.children[2].textContent = row.note || "";
      value.textContent = known ? `${row.bound ? "≤ " : ""}${shown(row.value)}` : "…";
      const part = row.value / mine;
      ratio.textContent = i && known && Number.isFinite(part) && view.state.metric !== "forgetting" ? times(part) : "";
      button.hidden = !(row.take && known);
      button.dataset.name = row.name;
      button.setAttribute("aria-label", `start from the ${row.title}`);
    });
  }

  const times = (x) => (x >= 1e4 || x < 1e-3 ? shown(x) : String(Number(x.toPrecision(3))));

  function empty(body) {
    const line = body.insertRow(),
      name = line.insertCell(),
      button = document.createElement("button");
    name.append(...["span", "span", "span"].map((each) => document.createElement(each)));
    name.children[2].className = "note";
    line.insertCell();
    line.insertCell();
    Object.assign(button, { type: "button", textContent: "use" });
    line.insertCell().append(button);
    return line;
  }

  return { guarantees, reason, render };
})();
