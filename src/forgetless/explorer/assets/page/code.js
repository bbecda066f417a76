"use strict";
/* What is on the page as Python code that computes the same number. */
const Code = (() => {
  const list = (values) => `[${Array.from(values, (x) => String(x)).join(", ")}]`;

  function tasksCode(found, source) {
    if (source) return source;
    if (found.code) return `tasks = ${found.code}`;
    const lines = found.tasks.map((task) => {
      const rows = Array.from({ length: task.n }, (_, i) => list(task.X.subarray(i * found.d, (i + 1) * found.d)));
      const copies = task.count > 1 ? ` * ${task.count}` : "";
      return `    *[(np.array([${rows.join(", ")}]), np.array(${list(task.y)}))]${copies},`;
    });
    return `tasks = fl.TaskCollection([\n${lines.join("\n")}\n])`;
  }

  function scheduleCode(state) {
    const { scheme, schedule } = state,
      preset = Schedules.find(scheme, schedule);
    if (preset && preset.code) return `schedule = ${preset.code(schedule.scale ?? preset.scaled, state.n)}`;
    const heights = Schedules.heights(state);
    const numbers =
      schedule.preset === "drawn" && scheme !== "budget" ? drawnCode(schedule.levels) : `np.array(${list(heights)})`;
    if (scheme === "ridge")
      return `strength = ${numbers}  # in units of R²\nschedule = fl.Ridge(strength * tasks.radius**2)`;
    if (scheme === "size")
      return `size = ${numbers}  # in units of 1/R²\nschedule = fl.GradientDescent(${state.n}, size / tasks.radius**2)`;
    return `budget = np.array(${list(heights)}, dtype=int)\nschedule = fl.GradientDescent(budget, ${state.size} / tasks.radius**2)`;
  }

  // Thousandths of a decade; nan is 0
  function drawnCode(levels) {
    const { ZERO } = Schedules,
      words = Array.from(levels, (v) => (v === ZERO ? "np.nan" : String(v)));
    return `np.nan_to_num(10.0 ** (np.array([${words.join(", ")}]) / 1000))`;
  }

  function orderCode(state, order) {
    return {
      with: "fl.WithReplacement()",
      cyclic: "fl.Cyclic()",
      one: `fl.FixedOrder([${(order || []).join(", ")}])`,
    }[state.order];
  }

  // order: the tasks of all steps, for one order; loss: the number on the page
  function of(state, found, source, order, loss) {
    return [
      "import numpy as np",
      "import forgetless as fl",
      "",
      `k = ${state.k}`,
      tasksCode(found, source),
      scheduleCode(state),
      `result = fl.expect(tasks, schedule, k, ordering=${orderCode(state, order)}, metrics="${state.metric}")`,
      `print(result.${state.metric}[0])  # ${loss.toPrecision(12)}`,
      "",
    ].join("\n");
  }

  return { of };
})();
