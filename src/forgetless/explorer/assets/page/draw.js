"use strict";
/* The upper chart: the schedule, drawn by mouse, finger or keys, above bars of the exact gradient. */
const Draw = (() => {
  const { make, Chart, power, shown } = Plot,
    { ZERO, SCHEMES } = Schedules;
  const STRIP = 64,
    GAP = 24; // of the bars

  class DrawChart {
    // changed(levels, finished): the schedule was changed by hand
    constructor(svg, changed) {
      this.chart = new Chart(svg, 400, { left: 52, right: 14, top: 36, bottom: 40 + STRIP + GAP });
      Object.assign(this, { svg, changed, step: 0, brush: 0, last: null });
      const { over } = this.chart;
      this.bars = make("g", {}, over);
      this.more = make("path", { class: "more" }, this.bars);
      this.less = make("path", { class: "less" }, this.bars);
      this.words = make("g", { class: "words" }, this.bars);
      this.hint = make("text", { class: "hint", "text-anchor": "end" }, over, "✎ drag in this chart");
      this.cursor = make("g", { class: "cursor", visibility: "hidden" }, over);
      this.beam = make("rect", { class: "beam" }, this.cursor);
      this.dot = make("circle", { r: 5 }, this.cursor);
      this.listen();
    }

    // {scheme, k, heights, others: [{name, heights}], pull: Float64Array | null, note, hint}
    render(view) {
      this.view = view;
      const { scheme, k, heights, others, pull } = view,
        { low, high, zero } = SCHEMES[scheme],
        { box } = this.chart;
      const floor = zero ? low - 0.6 : low,
        span = high - floor,
        unit = box.w / Math.max(1, k - 1);
      this.x = (t) => (k > 1 ? box.x + t * unit : box.x + box.w / 2);
      this.y = (v) => box.y + ((high - v) / span) * box.h;
      this.at = (h) => (h <= 0 ? floor : Math.max(floor + (zero ? 0.2 : 0), Math.min(high, Math.log10(h))));
      const yTicks = [];
      for (let e = Math.ceil(low); e <= high; e++) yTicks.push([e, box.h < 120 && e % 2 ? "" : power(e)]);
      if (zero) yTicks.push([floor, "0"]);
      const xTicks = Plot.niceTicks(1, k, Math.max(2, box.w / 110)).filter((t) => t >= 1 && t === Math.round(t));
      if (k > 1 && xTicks[0] !== 1) xTicks.unshift(1);
      const shifted = (t) => this.x(t - 1);
      this.chart.axes(
        xTicks.map((t) => [t, t]),
        yTicks,
        shifted,
        this.y,
        null,
        SCHEMES[scheme].title,
      );
      const height = (h) => this.y(this.at(h));
      for (const other of ["constant", "theorem", "optimum"]) {
        const found = others.find((each) => each.name === other);
        this.chart.line(other, `line ${other}`, found ? found.heights : null, this.x, height);
      }
      this.chart.line("yours", "line yours", heights, this.x, height);
      this.hint.setAttribute("x", box.x + box.w);
      this.hint.setAttribute("y", box.y - 14);
      this.hint.setAttribute("visibility", view.hint ? "visible" : "hidden");
      this.drawBars(pull, view.note);
      this.placeCursor();
    }

    drawBars(pull, note) {
      const { box } = this.chart,
        { k, scheme } = this.view,
        top = box.y + box.h + GAP + 22,
        middle = top + STRIP / 2;
      const columns = Math.min(k, Math.max(1, Math.floor(box.w / 2))),
        pitch = box.w / Math.max(columns, 2),
        wide = pitch < 4 ? pitch : pitch - 1; // narrow bars touch
      const up = [],
        down = [];
      let largest = 0;
      if (pull) for (const x of pull) largest = Math.max(largest, Math.abs(x));
      for (let c = 0; pull && largest > 0 && c < columns; c++) {
        const from = Math.floor((c * k) / columns),
          to = Math.max(from + 1, Math.floor(((c + 1) * k) / columns));
        let value = 0;
        for (let t = from; t < to; t++) if (Math.abs(pull[t]) > Math.abs(value)) value = pull[t];
        // Roots, so that small ones are seen beside large ones
        const size = Math.sqrt(Math.abs(value) / largest) * (STRIP / 2 - 2),
          at = this.x((from + to - 1) / 2) - wide / 2;
        if (size < 0.4) continue;
        if (value > 0)
          up.push(`M${at.toFixed(1)} ${middle}h${wide.toFixed(1)}v${(-size).toFixed(1)}h${(-wide).toFixed(1)}z`);
        else down.push(`M${at.toFixed(1)} ${middle}h${wide.toFixed(1)}v${size.toFixed(1)}h${(-wide).toFixed(1)}z`);
      }
      this.more.setAttribute("d", up.join(""));
      this.less.setAttribute("d", down.join(""));
      const { more, less } = SCHEMES[scheme],
        key = JSON.stringify([more, less, note, this.chart.width, !pull]);
      if (key === this.drawnWords) return;
      this.drawnWords = key;
      this.words.replaceChildren();
      make("line", { x1: box.x, x2: box.x + box.w, y1: middle, y2: middle, class: "tick" }, this.words);
      if (note) {
        make("text", { x: box.x + 4, y: middle - 8, class: "title" }, this.words, note);
        return;
      }
      const effect = box.w < 300 ? "here would help" : "here would lower the loss";
      make("text", { x: box.x, y: top - 5, class: "more-word" }, this.words, `▲ ${more} ${effect}`);
      make("text", { x: box.x, y: top + STRIP + 13, class: "less-word" }, this.words, `▼ ${less} ${effect}`);
      make(
        "text",
        { x: box.x + box.w, y: top + STRIP + 13, "text-anchor": "end", class: "title" },
        this.words,
        "step t",
      );
    }

    placeCursor() {
      const { box } = this.chart,
        { k, heights } = this.view,
        t = (this.step = Math.min(this.step, k - 1));
      const left = this.x(Math.max(0, t - this.brush)),
        right = this.x(Math.min(k - 1, t + this.brush));
      for (const [key, value] of Object.entries({ x: left - 3, y: box.y, width: right - left + 6, height: box.h }))
        this.beam.setAttribute(key, value);
      this.dot.setAttribute("cx", this.x(t));
      this.dot.setAttribute("cy", this.y(this.at(heights[t])));
      this.svg.setAttribute("aria-valuemax", k);
      this.svg.setAttribute("aria-valuenow", t + 1);
      this.svg.setAttribute("aria-valuetext", this.sentence(t));
    }

    sentence(t) {
      const { scheme, heights, pull, k } = this.view,
        { symbol, more, less } = SCHEMES[scheme];
      const unit = { ridge: " R²", size: " / R²", budget: "" }[scheme],
        advice = pull && pull[t] ? `; ${pull[t] > 0 ? more : less} here would lower the loss` : "";
      return `step ${t + 1} of ${k}: ${symbol} = ${shown(heights[t])}${unit}${advice}`;
    }

    // Position of a pointer as a step and a height of the chart
    where(event) {
      const rect = this.svg.getBoundingClientRect(),
        { box } = this.chart,
        { k, scheme } = this.view;
      const scale = this.chart.width / rect.width,
        px = (event.clientX - rect.left) * scale,
        py = (event.clientY - rect.top) * scale;
      const { low, high, zero } = SCHEMES[scheme],
        floor = zero ? low - 0.6 : low;
      const v = high - ((py - box.y) / box.h) * (high - floor);
      const step = Math.round(((px - box.x) / box.w) * (k - 1));
      return {
        t: Math.min(k - 1, Math.max(0, step)),
        v: zero && v < low - 0.2 ? null : Math.min(high, Math.max(low, v)),
        py,
      };
    }

    paint(to) {
      const { scheme, heights } = this.view,
        levels = Schedules.drawn({ scheme }, heights).levels,
        from = this.last || to;
      const [a, b] = from.t <= to.t ? [from, to] : [to, from];
      for (let t = a.t; t <= b.t; t++) {
        const part = b.t > a.t ? (t - a.t) / (b.t - a.t) : to === b ? 1 : 0;
        const zero = to.v === null || (from.v === null && t !== to.t);
        levels[t] = zero ? ZERO : Math.round(1000 * (a.v === null || b.v === null ? to.v : a.v + part * (b.v - a.v)));
      }
      if (to.v !== null) levels[to.t] = Math.round(1000 * to.v);
      this.last = to;
      this.step = to.t;
      return levels;
    }

    listen() {
      const { svg } = this;
      svg.addEventListener("pointerdown", (event) => {
        if (event.button || !this.view) return;
        const at = this.where(event),
          { box } = this.chart;
        if (at.py > box.y + box.h + 12) return;
        event.preventDefault();
        svg.focus({ preventScroll: true });
        svg.setPointerCapture(event.pointerId);
        this.last = null;
        this.dragging = true;
        this.changed(this.paint(at), false);
      });
      svg.addEventListener("pointermove", (event) => {
        if (this.dragging) this.changed(this.paint(this.where(event)), false);
      });
      const end = () => {
        if (!this.dragging) return;
        this.dragging = false;
        this.last = null;
        this.changed(null, true);
      };
      svg.addEventListener("pointerup", end);
      svg.addEventListener("pointercancel", end);
      svg.addEventListener("focus", () =>
        this.cursor.setAttribute("visibility", svg.matches(":focus-visible") ? "visible" : "hidden"),
      );
      svg.addEventListener("blur", () => this.cursor.setAttribute("visibility", "hidden"));
      svg.addEventListener("keydown", (event) => this.key(event));
    }

    key(event) {
      const { k, scheme, heights } = this.view,
        fine = event.shiftKey ? 20 : 100;
      const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -k, End: k },
        lifts = { ArrowUp: fine, ArrowDown: -fine, PageUp: 500, PageDown: -500 };
      if (event.key in moves)
        this.step = Math.min(k - 1, Math.max(0, this.step + moves[event.key] * (event.ctrlKey ? 10 : 1)));
      else if (event.key === "[" || event.key === "]")
        this.brush = Math.max(0, Math.min(k, event.key === "]" ? 2 * this.brush + 1 : this.brush >> 1));
      else if (event.key in lifts || (event.key === "0" && SCHEMES[scheme].zero)) {
        const { low, high, zero } = SCHEMES[scheme],
          levels = Schedules.drawn({ scheme }, heights).levels;
        for (let t = Math.max(0, this.step - this.brush); t <= Math.min(k - 1, this.step + this.brush); t++) {
          if (event.key === "0") levels[t] = ZERO;
          else if (levels[t] === ZERO) levels[t] = lifts[event.key] > 0 ? 1000 * low : ZERO;
          else if (scheme === "budget") levels[t] = counted(levels[t], lifts[event.key]);
          else {
            const next = levels[t] + lifts[event.key];
            levels[t] = next < 1000 * low ? (zero ? ZERO : 1000 * low) : Math.min(1000 * high, next);
          }
        }
        this.changed(levels, true);
      } else return;
      event.preventDefault();
      this.cursor.setAttribute("visibility", "visible");
      this.placeCursor();
    }
  }

  // Counts go up and down by at least one.
  function counted(level, lift) {
    const count = Schedules.height("budget", level),
      next = Schedules.height("budget", level + lift);
    return Schedules.level("budget", next === count ? Math.max(1, count + Math.sign(lift)) : next);
  }

  return { DrawChart };
})();
