"use strict";
/* What leaves the page, when it is asked to: pictures and numbers as files. */
const Export = (() => {
  const SHOWN = [
    "fill",
    "stroke",
    "stroke-width",
    "stroke-dasharray",
    "font-size",
    "font-family",
    "font-weight",
    "opacity",
    "text-anchor",
  ];

  function save(name, parts, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(parts, { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // Both charts below each other as one picture that needs no style sheet
  function picture(charts, legend) {
    const width = Math.max(...charts.map((svg) => svg.viewBox.baseVal.width)),
      rows = 18 * legend.length + 12;
    const height = charts.reduce((sum, svg) => sum + svg.viewBox.baseVal.height, 0) + rows;
    const whole = Plot.make("svg", {
      xmlns: "http://www.w3.org/2000/svg",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
    });
    Plot.make("rect", { width, height, fill: getComputedStyle(document.body).backgroundColor }, whole);
    let top = 0;
    for (const svg of charts) {
      const group = Plot.make("g", { transform: `translate(0 ${top})` }, whole);
      for (const child of svg.children) group.append(plain(child));
      top += svg.viewBox.baseVal.height;
    }
    const ink = getComputedStyle(document.body);
    legend.forEach(({ text, row }, i) => {
      const y = top + 18 * i + 12,
        line = getComputedStyle(row);
      Plot.make(
        "line",
        { x1: 52, x2: 76, y1: y - 4, y2: y - 4, stroke: line.borderTopColor, "stroke-width": 3 },
        whole,
      );
      Plot.make("text", { x: 84, y, fill: ink.color, "font-size": 12, "font-family": "sans-serif" }, whole, text);
    });
    return { text: new XMLSerializer().serializeToString(whole), width, height };
  }

  function plain(node) {
    const copy = node.cloneNode(false),
      style = getComputedStyle(node);
    copy.removeAttribute("class");
    if (style.visibility === "hidden") copy.setAttribute("visibility", "hidden");
    for (const name of SHOWN) {
      const value = style.getPropertyValue(name);
      if (value && value !== "none" && value !== "auto") copy.setAttribute(name, value);
    }
    if (node.getAttribute("fill") === "none" || style.fill === "none") copy.setAttribute("fill", "none");
    if (node.childElementCount) for (const child of node.children) copy.append(plain(child));
    else if (node.textContent) copy.textContent = node.textContent;
    return copy;
  }

  function svg(charts, legend) {
    save("forgetless.svg", [picture(charts, legend).text], "image/svg+xml");
  }

  async function png(charts, legend) {
    const { text, width, height } = picture(charts, legend),
      image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    save("forgetless.png", [await new Promise((done) => canvas.toBlob(done, "image/png"))], "image/png");
  }

  // step, strength, and the loss of every curve after it
  function csv(heights, slope, curves) {
    const lines = [["step", "strength", "gradient", ...curves.map(({ name }) => `loss_${name}`)].join(",")];
    for (let t = 0; t <= heights.length; t++) {
      const own = t ? [heights[t - 1], slope ? slope[t - 1] : ""] : ["", ""];
      lines.push([t, ...own, ...curves.map(({ values }) => (Number.isNaN(values[t]) ? "" : values[t]))].join(","));
    }
    save("forgetless.csv", [lines.join("\n"), "\n"], "text/csv");
  }

  return { svg, png, csv };
})();
