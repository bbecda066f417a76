"use strict";
/* The lower chart: exact losses after every step, of the schedule drawn and of those it is compared with. */
const Losses = (() => {
  const { make, Chart, power, shown, niceTicks } = Plot;

  class LossChart {
    constructor(svg) {
      this.chart = new Chart(svg, 340, { left: 52, right: 14, top: 36, bottom: 40 });
      this.marks = make("g", { class: "marks" }, this.chart.over);
      this.svg = svg;
    }

    // {k, title, curves: [{name, values}], bounds: [{name, value}], logSteps}
    render(view) {
      this.view = view;
      const { k, curves, bounds, logSteps } = view,
        { box } = this.chart;
      const all = curves.flatMap(({ values }) => [minimum(values), maximum(values)]).filter(Number.isFinite);
      const signed = all.some((x) => x < 0),
        most = Math.max(...all, 0);
      let y, ticks;
      if (signed || !(most > 0)) {
        const low = Math.min(0, ...all),
          high = most || 1,
          room = 0.05 * (high - low);
        y = (v) => box.y + ((high + room - v) / (high - low + 2 * room)) * box.h;
        ticks = niceTicks(low, high, 6).map((v) => [v, shown(v)]);
      } else {
        const positive = Math.max(1e-300, least(curves, most)),
          tops = bounds.map(({ value }) => value).filter((v) => v > 0);
        const high = Math.log10(Math.max(most, ...tops)),
          low = Math.min(Math.log10(positive), high - 0.5),
          room = 0.04 * (high - low);
        y = (v) => box.y + ((high + room - Math.log10(Math.max(v, 1e-320))) / (high - low + 2 * room)) * box.h;
        const every = Math.max(1, Math.ceil((high - low) / 7));
        ticks = [];
        for (let e = Math.ceil(low - room); e <= high + room; e++) if (e % every === 0) ticks.push([10 ** e, power(e)]);
        if (high - low < 2.2)
          for (const [v] of [...ticks, [10 ** Math.floor(low), ""]])
            for (const m of [2, 5])
              if (Math.log10(m * v) > low - room && Math.log10(m * v) < high + room) ticks.push([m * v, shown(m * v)]);
        if (ticks.length < 2)
          ticks = niceTicks(10 ** low, 10 ** high, 4)
            .filter((v) => v > 0)
            .map((v) => [v, shown(v)]);
      }
      this.x = logSteps ? (t) => box.x + (Math.log1p(t) / Math.log1p(k)) * box.w : (t) => box.x + (t / k) * box.w;
      const steps = logSteps
        ? [0, 1, 3, 10, 30, 100, 300, 1000, 3000].filter((t) => t <= k)
        : niceTicks(0, k, Math.max(2, box.w / 110)).filter((t) => t === Math.round(t));
      this.y = y;
      this.chart.axes(
        steps.map((t) => [t, t]),
        ticks,
        this.x,
        y,
        "after t steps",
        view.title,
      );
      for (const name of ["none", "theorem", "constant", "optimum", "yours"]) {
        const found = curves.find((curve) => curve.name === name);
        this.chart.line(name, `line ${name}`, found ? found.values : null, this.x, y);
      }
      this.marks.replaceChildren();
      for (const { name, value } of bounds) {
        const at = y(value);
        if (at < box.y - 1 || at > box.y + box.h + 1) continue;
        make("line", { x1: box.x, x2: box.x + box.w, y1: at, y2: at, class: `line ${name}` }, this.marks);
      }
    }

  }

  const minimum = (values) => values.reduce((a, b) => (b < a ? b : a), Infinity);
  const maximum = (values) => values.reduce((a, b) => (b > a ? b : a), -Infinity);

  // The least value shown: below 1e-14 of the largest there is mostly rounding, unless all that is drawn by hand is there.
  function least(curves, most) {
    const lows = curves.map(({ name, values }) => ({
      name,
      low: values.reduce((a, b) => (b > 0 && b < a ? b : a), Infinity),
    }));
    const yours = lows.find(({ name }) => name === "yours");
    const lowest = Math.min(...lows.map(({ low }) => low));
    return Math.max(lowest, Math.min(1e-14 * most, yours ? yours.low : Infinity));
  }

  return { LossChart };
})();
