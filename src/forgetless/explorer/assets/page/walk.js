"use strict";
/* Walking through the plane of weights: play, step, scrub. */
const Walk = (() => {
  const $ = (id) => document.getElementById(id),
    plane = new Geometry.Plane($("plane"));
  let playing = 0,
    at = 2,
    k = 0,
    walked = false,
    told = () => {};

  // names and path of what is on the page; null where there is no plane
  function set(view) {
    $("geometry").hidden = !view;
    if (!view) return stop();
    k = view.order.length;
    plane.set(view.prob, view.names, view.path, view.order);
    $("scrub").max = k;
    go(Math.min(at, k));
  }

  function go(t) {
    at = Math.min(k, Math.max(0, t));
    $("scrub").value = at;
    $("where").textContent = plane.show(at);
    told(walked && at > 0 ? at : null);
  }

  function stop() {
    clearInterval(playing);
    playing = 0;
    $("play").textContent = "▶ play";
  }

  function play() {
    if (playing) return stop();
    if (at >= k) at = 0;
    $("play").textContent = "❚❚ pause";
    playing = setInterval(() => (at >= k ? stop() : go(at + 1)), 320);
  }

  // moved(t) hears where the walk is; reorder() asks for another order
  function listen(moved, reorder) {
    told = moved;
    for (const id of ["play", "back", "forth", "scrub"])
      $(id).addEventListener(id === "scrub" ? "input" : "click", () => (walked = true));
    $("play").addEventListener("click", play);
    $("back").addEventListener("click", () => (stop(), go(at - 1)));
    $("forth").addEventListener("click", () => (stop(), go(at + 1)));
    $("scrub").addEventListener("input", () => (stop(), go(+$("scrub").value)));
    $("reorder").addEventListener("click", reorder);
  }

  return { set, listen };
})();
