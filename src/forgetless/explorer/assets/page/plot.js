"use strict";
/* Charts as SVG: axes, lines and bars from numbers. Colours are classes, so that dark mode is a matter of style. */
const Plot = (() => {
  const NS = "http://www.w3.org/2000/svg";

  function make(name, attributes = {}, parent = null, text = null) {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  }

  const SUPER = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  const power = (e) => (e === 0 ? "1" : e === 1 ? "10" : `10${[...String(e)].map((c) => SUPER[c]).join("")}`);

  // Four digits that a person reads; thousands are set apart
  function shown(x) {
    if (x === 0) return "0";
    if (!Number.isFinite(x)) return "–";
    const size = Math.abs(x);
    if (size >= 1e-4 && size < 1e7) {
      const text = String(Number(x.toPrecision(4)));
      return size < 1e4 ? text : text.replace(/\B(?=(\d{3})+$)/g, "\u202f");
    }
    const [digits, exponent] = x.toExponential(3).split("e");
    return `${digits}·10${[...String(Number(exponent))].map((c) => SUPER[c]).join("")}`;
  }

  function niceTicks(low, high, most) {
    const raw = (high - low) / most || 1,
      base = 10 ** Math.floor(Math.log10(raw));
    const step = base * [1, 2, 5, 10].find((m) => m * base >= raw);
    const ticks = [];
    for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + 1e-9 * step; x += step)
      ticks.push(Number(x.toPrecision(12)));
    return ticks;
  }

  // Points of a line, no more than two for each pixel column
  function path(values, x, y, columns) {
    const n = values.length,
      parts = [];
    let pen = "M";
    const put = (t) => {
      const v = y(values[t]);
      if (!Number.isFinite(v)) {
        pen = "M";
        return;
      }
      parts.push(`${pen}${x(t).toFixed(1)} ${v.toFixed(1)}`);
      pen = "L";
    };
    if (n <= 2 * columns) for (let t = 0; t < n; t++) put(t);
    else {
      for (let c = 0; c < columns; c++) {
        const from = Math.floor((c * n) / columns),
          to = Math.max(from + 1, Math.floor(((c + 1) * n) / columns));
        let low = from,
          high = from;
        for (let t = from; t < to; t++) {
          if (values[t] < values[low]) low = t;
          if (values[t] > values[high]) high = t;
        }
        put(Math.min(low, high));
        if (low !== high) put(Math.max(low, high));
      }
      put(n - 1);
    }
    return parts.join("");
  }

  // A chart of given height in the width that there is; layers keep their nodes between frames.
  class Chart {
    constructor(svg, height, pad) {
      Object.assign(this, { svg, height, pad });
      this.back = make("g", { class: "axes" }, svg);
      const clip = make("clipPath", { id: `${svg.id}-clip` }, make("defs", {}, svg));
      this.window = make("rect", {}, clip);
      this.front = make("g", { "clip-path": `url(#${svg.id}-clip)` }, svg);
      this.over = make("g", {}, svg);
      this.lines = new Map();
      this.measure();
    }

    measure() {
      this.width = Math.max(240, this.svg.clientWidth || 600);
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
      this.svg.setAttribute("height", this.height);
      const { left, right, top, bottom } = this.pad;
      this.box = { x: left, y: top, w: this.width - left - right, h: this.height - top - bottom };
      for (const [key, value] of Object.entries({ x: left, y: top - 2, width: this.box.w + 2, height: this.box.h + 4 }))
        this.window.setAttribute(key, value);
    }

    axes(xTicks, yTicks, x, y, xTitle, yTitle) {
      const { box } = this, bottom = box.y + box.h, places = [xTicks.map(([v]) => x(v)), yTicks.map(([v]) => y(v))];
      // Places too: the same ticks may belong to another range.
      const key = JSON.stringify([xTicks, yTicks, places, this.width, this.height, xTitle, yTitle]);
      if (key === this.drawnAxes) return;
      this.drawnAxes = key;
      this.back.replaceChildren();
      for (const [value, label] of yTicks) {
        make("line", { x1: box.x, x2: box.x + box.w, y1: y(value), y2: y(value), class: "grid" }, this.back);
        if (label) make("text", { x: box.x - 6, y: y(value) + 4, "text-anchor": "end" }, this.back, label);
      }
      for (const [value, label] of xTicks) {
        make("line", { x1: x(value), x2: x(value), y1: bottom, y2: bottom + 4, class: "tick" }, this.back);
        make("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, this.back, label);
      }
      make("line", { x1: box.x, x2: box.x + box.w, y1: bottom, y2: bottom, class: "tick" }, this.back);
      if (xTitle)
        make("text", { x: box.x + box.w, y: bottom + 32, "text-anchor": "end", class: "title" }, this.back, xTitle);
      if (yTitle) make("text", { x: 4, y: box.y - 16, class: "title" }, this.back, yTitle);
    }

    line(name, className, values, x, y) {
      if (!this.lines.has(name)) this.lines.set(name, make("path", { fill: "none", class: className }, this.front));
      const node = this.lines.get(name);
      node.setAttribute("d", values ? path(values, x, y, Math.round(this.box.w)) : "");
      return node;
    }
  }

  return { make, power, shown, niceTicks, path, Chart };
})();
