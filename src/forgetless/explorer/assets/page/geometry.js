"use strict";
/* Two features: the plane of weights. Every task of one row is a line of weights that solve it; a step goes from w towards
 * its nearest point there, and regularization shortens it. */
const Geometry = (() => {
  const { make, shown } = Plot;
  const SIDE = 360,
    PAD = 14;

  class Plane {
    constructor(svg) {
      this.svg = svg;
      svg.setAttribute("viewBox", `0 0 ${SIDE} ${SIDE}`);
      this.lines = make("g", {}, svg);
      this.trail = make("path", { class: "trail", fill: "none" }, svg);
      this.full = make("line", { class: "full" }, svg);
      this.made = make("line", { class: "made" }, svg);
      this.dots = make("g", {}, svg);
      this.labels = make("g", {}, svg);
    }

    // path: weights after 0..k steps, order: the task of each step
    set(prob, names, path, order) {
      Object.assign(this, { prob, names, path, order });
      const middle = [prob.teacher[0] / 2, prob.teacher[1] / 2];
      const reach = [...path, prob.teacher, [0, 0]].flatMap(([x, y]) => [
        Math.abs(x - middle[0]),
        Math.abs(y - middle[1]),
      ]);
      const size = Math.max(1e-9, 1.25 * reach.reduce((a, b) => Math.max(a, b)));
      const scale = (SIDE / 2 - PAD) / size;
      this.to = ([x, y]) => [SIDE / 2 + (x - middle[0]) * scale, SIDE / 2 - (y - middle[1]) * scale];
      this.lines.replaceChildren();
      this.labels.replaceChildren();
      for (let m = 0; m < prob.offsets.length - 1; m++) {
        for (let i = prob.offsets[m]; i < prob.offsets[m + 1]; i++)
          this.solutions(m, [prob.V[2 * i], prob.V[2 * i + 1]], prob.targets[i], 2.9 * size);
      }
    }

    solutions(m, v, target, reach) {
      const foot = [v[0] * target, v[1] * target],
        along = [-v[1], v[0]];
      const [a, b] = [-1, 1].map((sign) =>
        this.to([foot[0] + sign * reach * along[0], foot[1] + sign * reach * along[1]]),
      );
      make("line", { x1: a[0], y1: a[1], x2: b[0], y2: b[1], class: `solutions task${m % 4}` }, this.lines);
      // The label where the line enters the square
      for (const part of [0.96, 0.9, 0.8, 0.7, 0.6, 0.5]) {
        const at = [a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1])];
        if (at.every((x) => x > 24 && x < SIDE - 24)) {
          const right = at[0] > SIDE / 2;
          make(
            "text",
            {
              x: at[0] + (right ? -6 : 6),
              y: at[1] - 5 + 16 * (m % 2),
              "text-anchor": right ? "end" : "start",
              class: `task-word task${m % 4}`,
            },
            this.labels,
            this.names[m].slice(0, 24),
          );
          break;
        }
      }
    }

    // After step t; the last step is shown as the exact solution of the task and the regularized step.
    show(t) {
      const { path, order, prob } = this,
        first = Math.max(0, t - 60);
      const points = path.slice(first, t + 1).map(this.to);
      this.trail.setAttribute(
        "d",
        points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(""),
      );
      this.dots.replaceChildren();
      const dot = (w, r, name, label) => {
        const [x, y] = this.to(w);
        make("circle", { cx: x, cy: y, r, class: name }, this.dots);
        const right = x > SIDE - 110;
        if (label)
          make(
            "text",
            {
              x: x + (right ? -9 : 9),
              y: y + (name === "star" ? 20 : 16),
              "text-anchor": right ? "end" : "start",
              class: "title",
            },
            this.dots,
            label,
          );
      };
      dot(prob.teacher, 5, "star", "w⋆ solves all");
      if (t > 0 || Math.hypot(...path[0]) > 0) dot([0, 0], 3, "old");
      dot(path[t], 5.5, "now", t === 0 ? "start" : null);
      const visible = t > 0 ? "visible" : "hidden";
      this.full.setAttribute("visibility", visible);
      this.made.setAttribute("visibility", visible);
      if (t === 0) return "before the first task: w = 0";
      const m = order[(t - 1) % order.length],
        before = path[t - 1],
        whole = Engine.step(prob, m, new Float64Array(prob.n).fill(1), before);
      const place = (node, a, b) => {
        const [[x1, y1], [x2, y2]] = [this.to(a), this.to(b)];
        for (const [key, value] of Object.entries({ x1, y1, x2, y2 })) node.setAttribute(key, value);
      };
      place(this.full, before, whole);
      place(this.made, before, path[t]);
      const far = Math.hypot(whole[0] - before[0], whole[1] - before[1]),
        went = Math.hypot(path[t][0] - before[0], path[t][1] - before[1]);
      const share =
        far > 0 ? `${((100 * went) / far).toFixed(went < far * 0.1 ? 1 : 0)} % of the way` : "already there";
      const away = Math.hypot(path[t][0] - prob.teacher[0], path[t][1] - prob.teacher[1]);
      return `step ${t}: ${this.names[m].slice(0, 24)}, ${share}; ${shown(away)} from w⋆`;
    }
  }

  // Weights after every step along an order
  function follow(prob, shares, order, k) {
    const path = [new Float64Array(prob.d)];
    for (let t = 0; t < k; t++)
      path.push(Engine.step(prob, order[t % order.length], shares.subarray(t * prob.n, (t + 1) * prob.n), path[t]));
    return path;
  }

  return { Plane, follow };
})();
