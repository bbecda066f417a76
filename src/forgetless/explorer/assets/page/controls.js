"use strict";
/* Controls: each shows its part of the state, and changes it. */
const Controls = (() => {
  const $ = (id) => document.getElementById(id),
    { shown } = Plot;
  const SLIDERS = ["angle", "d", "M", "rows", "rare", "weight", "cosine", "noise", "n", "size"];
  const UNITS = { angle: "°", weight: " times" };

  // The slider of k is logarithmic: 1..5000 on 0..1000.
  const toK = (x) => Math.max(1, Math.round(5000 ** (x / 1000))),
    fromK = (k) => Math.round((1000 * Math.log(k)) / Math.log(5000));

  function show() {
    const { state } = App;
    for (const id of SLIDERS) {
      $(id).value = state[id];
      $(id).nextElementSibling.textContent = `${state[id]}${UNITS[id] || ""}`;
    }
    for (const id of ["kind", "order", "metric", "scheme"]) $(id).value = state[id];
    if (document.activeElement !== $("kExact")) $("kExact").value = state.k;
    if (document.activeElement !== $("k") || toK($("k").value) !== state.k) $("k").value = fromK(state.k);
    $("log").checked = state.log;
    for (const node of document.querySelectorAll("[data-kind]")) node.hidden = node.dataset.kind !== state.kind;
    $("noiseRow").hidden = state.kind === "data";
    $("reseedRow").hidden = state.kind === "data" || (state.kind !== "random" && !state.noise); // others are not random
    for (const node of document.querySelectorAll("[data-scheme]")) node.hidden = node.dataset.scheme !== state.scheme;
    $("oneOrder").hidden = state.order !== "one";
    $("undo").disabled = !App.undo.length;
    presets();
  }

  function presets() {
    const { state } = App,
      all = Schedules.PRESETS[state.scheme],
      row = $("presets");
    if (row.dataset.scheme !== state.scheme) {
      row.dataset.scheme = state.scheme;
      row.replaceChildren(
        ...Object.entries(all).map(([name, { title }]) => {
          const button = Object.assign(document.createElement("button"), { type: "button", textContent: title });
          button.dataset.preset = name;
          return button;
        }),
      );
    }
    for (const button of row.children) {
      button.setAttribute("aria-pressed", String(button.dataset.preset === state.schedule.preset));
      button.disabled = (all[button.dataset.preset].least || 0) > state.k;
    }
    const own = all[state.schedule.preset],
      scale = own && own.scaled ? (state.schedule.scale ?? own.scaled) : null;
    $("scaleLabel").hidden = scale === null;
    if (scale === null) return;
    const { high } = Schedules.SCHEMES[state.scheme];
    const ends = {
      ridge: [-400, 300],
      size: own.title === "constant" ? [-400, 0] : [0, 300],
      budget: own.title === "constant" ? [0, 100 * high] : [-100, 200],
    }[state.scheme];
    Object.assign($("scale"), { min: ends[0], max: ends[1] });
    if (document.activeElement !== $("scale")) $("scale").value = Math.round(100 * Math.log10(scale));
    const unit = own.title === "constant" ? { ridge: " R²", size: " / R²", budget: "" }[state.scheme] : "";
    $("scale").nextElementSibling.textContent = `${shown(Number(scale.toPrecision(3)))}${unit}`;
  }

  function listen() {
    const on = (id, event, act) => $(id).addEventListener(event, act);
    for (const id of SLIDERS) on(id, "input", () => App.set({ [id]: Number($(id).value) }));
    for (const id of ["order", "metric", "scheme"]) on(id, "change", () => App.set({ [id]: $(id).value }));
    on("kind", "change", () => App.set({ kind: $("kind").value, noise: 0 })); // other tasks are shown as they are
    on("k", "input", () => App.set({ k: toK(Number($("k").value)) }));
    on("kExact", "change", () => {
      const k = Math.round(Number($("kExact").value));
      if (k >= 1) App.set({ k: Math.min(5000, k) });
      $("kExact").value = App.state.k;
    });
    on("log", "change", () => App.set({ log: $("log").checked }));
    on("reseed", "click", () => App.set({ seed: App.state.seed + 1 }));
    on("neworder", "click", () => App.set({ orderSeed: App.state.orderSeed + 1 }));
    on("undo", "click", App.back);
    on("presets", "click", ({ target }) => target.dataset.preset && App.take({ preset: target.dataset.preset }));
    on("scale", "input", () =>
      App.take(
        { preset: App.state.schedule.preset, scale: Number((10 ** (Number($("scale").value) / 100)).toPrecision(3)) },
        true,
      ),
    );
    on("results", "click", ({ target }) => target.dataset.name && App.take(taken(target.dataset.name)));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", App.render);
    new ResizeObserver(() => {
      for (const { chart } of [App.draw, App.losses]) chart.measure();
      if (App.now) App.render();
    }).observe($("draw"));
  }

  // A schedule of the table, exactly where it has a name
  function taken(name) {
    if (name === "theorem") return { preset: "increasing" };
    if (name === "none") return { preset: "none" };
    const { heights, height } = App.references[name];
    if (name === "constant") return height ? { preset: "constant", scale: height } : { preset: "none" };
    return Schedules.drawn(App.state, heights);
  }

  function start() {
    $("kind").querySelector("[value=data]").hidden = !App.data.tasks;
    listen();
    App.everything();
  }

  return { show, start };
})();
