"use strict";
/* Tables of a user's: CSV text (a file or pasted) with a column that names the task, as forgetless.tables reads it.
 * Nothing leaves the page. */
const Reading = (() => {
  const LIMITS = { bytes: 32e6, features: 60, numbers: 4e6 };

  class Refused extends Error {}

  // Values of one record after the other, quotes respected.
  function* records(text) {
    const first = text.slice(0, text.indexOf("\n") + 1 || text.length);
    const mark = [",", "\t", ";"].find((each) => first.includes(each)) || ",";
    let at = text.charCodeAt(0) === 0xfeff ? 1 : 0,
      line = 1;
    while (at < text.length) {
      const values = [];
      let start = line;
      for (;;) {
        let value;
        if (text[at] === '"') {
          let end = at + 1;
          for (; ; end++) {
            end = text.indexOf('"', end);
            if (end < 0) throw new Refused(`line ${start}: a quote is never closed`);
            if (text[end + 1] !== '"') break;
            end++;
          }
          value = text.slice(at + 1, end).replaceAll('""', '"');
          for (let i = at; i < end; i++) if (text[i] === "\n") line++;
          at = end + 1;
        } else {
          let end = at;
          while (end < text.length && text[end] !== mark && text[end] !== "\n" && text[end] !== "\r") end++;
          value = text.slice(at, end);
          at = end;
        }
        values.push(value.trim());
        if (text[at] === mark) {
          at++;
          continue;
        }
        if (text[at] === "\r") at++;
        if (text[at] === "\n") at++;
        else if (at < text.length) throw new Refused(`line ${line}: something follows a closing quote`);
        line++;
        break;
      }
      if (values.length > 1 || values[0] !== "") yield { line: start, values };
    }
  }

  const TRUTH = { True: 1, False: 0, TRUE: 1, FALSE: 0, true: 1, false: 0 };
  const number = (text) => (text === "" ? NaN : text in TRUTH ? TRUTH[text] : Number(text));

  // {names, rows: [[text]], lines}
  function table(text) {
    if (text.length > LIMITS.bytes) {
      throw new Refused(
        `the table has ${(text.length / 1e6).toFixed(0)} MB; this page reads ${LIMITS.bytes / 1e6} MB. Use: forgetless explore FILE`,
      );
    }
    const rows = [],
      lines = [];
    let names = null;
    for (const { line, values } of records(text)) {
      if (!names) {
        names = values;
        if (names.every((name) => name !== "" && !Number.isNaN(number(name))))
          throw new Refused("the first line must name the columns");
        const twice = names.find((name, i) => names.indexOf(name) < i);
        if (twice !== undefined) throw new Refused(`several columns are named “${twice}”; give each its own name`);
        continue;
      }
      if (values.length !== names.length)
        throw new Refused(`line ${line} has ${values.length} values, but the header names ${names.length} columns`);
      rows.push(values);
      lines.push(line);
      if (rows.length * names.length > LIMITS.numbers) {
        throw new Refused(
          `more than ${LIMITS.numbers / 1e6} million values; this page reads fewer. Use: forgetless explore FILE`,
        );
      }
    }
    if (!rows.length) throw new Refused("there are no rows below the header");
    return { names, rows, lines };
  }

  // Columns that are likely to be the task and the target
  function guess(names) {
    const find = (...words) => names.find((name) => words.includes(name.toLowerCase()));
    const task = find("task", "group", "groups", "task_id", "domain") ?? names[0];
    return { task, target: find("y", "target", "label") ?? names.find((name) => name !== task) };
  }

  function columnsOf({ names, rows, lines }, task, target) {
    if (task === target) throw new Refused("the task and the target must be different columns");
    const features = names.filter((name) => name !== task && name !== target);
    if (!features.length) throw new Refused("there is no feature besides the task and the target");
    checkFeatures(features.length);
    const of = [...features, target].map((name) => names.indexOf(name)),
      group = names.indexOf(task);
    const numbers = rows.map((row, i) =>
      of.map((column) => {
        const value = number(row[column]);
        if (Number.isFinite(value)) return value;
        const shown = row[column].slice(0, 30) || "nothing";
        throw new Refused(`line ${lines[i]}: “${names[column].slice(0, 30)}” must be a number, but is ${shown}`);
      }),
    );
    const groups = rows.map((row, i) => {
      if (row[group] === "") throw new Refused(`line ${lines[i]} names no task`);
      return row[group];
    });
    return { features, numbers, groups };
  }

  function checkFeatures(d) {
    if (d > LIMITS.features) {
      throw new Refused(
        `${d} features; this page computes up to ${LIMITS.features}. Use: forgetless explore FILE, which computes in Python`,
      );
    }
  }

  // Tasks in the order of their labels: as numbers if all are, else as text.
  function grouped(numbers, groups, { mean, intercept }) {
    const by = new Map();
    numbers.forEach((row, i) => {
      if (!by.has(groups[i])) by.set(groups[i], []);
      by.get(groups[i]).push(row);
    });
    const numeric = [...by.keys()].every((label) => label !== "" && Number.isFinite(Number(label)));
    const compare = numeric ? (a, b) => a - b : (a, b) => (a === b ? 0 : byCodePoint(a, b));
    const d = numbers[0].length - 1 + (intercept ? 1 : 0);
    const tasks = [...by.keys()].sort(compare).map((label) => {
      const rows = by.get(label),
        n = rows.length,
        scale = mean ? 1 / Math.sqrt(n) : 1;
      const X = new Float64Array(n * d),
        y = new Float64Array(n);
      rows.forEach((row, i) => {
        for (let j = 0; j < row.length - 1; j++) X[i * d + j] = scale * row[j];
        if (intercept) X[i * d + d - 1] = scale;
        y[i] = scale * row[row.length - 1];
      });
      return { X, y, n, count: 1, label: String(label) };
    });
    if (tasks.length > 400)
      throw new Refused(`${tasks.length} tasks; this page computes up to 400. Is the task column right?`);
    return { d, tasks };
  }

  function byCodePoint(a, b) {
    const [x, y] = [Array.from(a), Array.from(b)];
    for (let i = 0; i < Math.min(x.length, y.length); i++) {
      if (x[i] !== y[i]) return x[i].codePointAt(0) - y[i].codePointAt(0);
    }
    return x.length - y.length;
  }

  return { LIMITS, Refused, table, guess, columnsOf, checkFeatures, grouped };
})();
