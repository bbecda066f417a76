"use strict";
/* What is taken along from the page: a link, Python code, and the numbers of the charts as a table. */
const Take = (() => {
  const $ = (id) => document.getElementById(id);

  function offer(title, text) {
    $("outLabel").hidden = false;
    $("outTitle").textContent = title;
    $("out").value = text;
    const done = navigator.clipboard && navigator.clipboard.writeText(text);
    if (done)
      done.then(
        () => App.tell($("copied"), "copied"),
        () => $("out").select(),
      );
    else $("out").select();
    App.tell($("copied"), "");
  }

  function link() {
    const data = App.state.kind === "data" ? " (your data are not in it)" : "";
    offer(`Link${data}`, `${location.href.split("#")[0]}#${State.toText(App.state)}`);
  }

  function code() {
    const order = App.orderNow(),
      { state, tasks, now } = App,
      source = state.kind === "data" ? App.data.source : null;
    offer("Python", Code.of(state, tasks, source, order && order.own, now.loss[state.k]));
  }

  // step, strength, and the loss of every curve after it
  function csv(heights, slope, curves) {
    const lines = [["step", "strength", "gradient", ...curves.map(({ name }) => `loss_${name}`)].join(",")];
    for (let t = 0; t <= heights.length; t++) {
      const own = t ? [heights[t - 1], slope ? slope[t - 1] : ""] : ["", ""];
      lines.push([t, ...own, ...curves.map(({ values }) => (Number.isNaN(values[t]) ? "" : values[t]))].join(","));
    }
    const save = document.createElement("a");
    save.href = URL.createObjectURL(new Blob([lines.join("\n"), "\n"], { type: "text/csv" }));
    save.download = "forgetless.csv";
    save.click();
    setTimeout(() => URL.revokeObjectURL(save.href), 1000);
  }

  function listen() {
    $("link").addEventListener("click", link);
    $("code").addEventListener("click", code);
    $("csv").addEventListener("click", () => csv(App.now.heights, App.now.slope, App.curves()));
  }

  return { listen };
})();
Take.listen();
Controls.start();
