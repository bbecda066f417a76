"use strict";
/* Files in and out: the user's tables, which stay in the page, and what is taken along. */
const Files = (() => {
  const $ = (id) => document.getElementById(id);
  let read = null; // what was read last: {name, table} or {name, buffer}

  const options = () => ({ mean: $("mean").checked, intercept: $("intercept").checked });

  // A short fingerprint, by which a link can tell whether the same data were loaded
  function print(collection) {
    let hash = 0x811c9dc5;
    const add = (bytes) => {
      for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
    };
    for (const { X, y } of collection.tasks)
      for (const each of [X, y]) add(new Uint8Array(each.buffer, each.byteOffset, each.byteLength));
    return hash.toString(16).padStart(8, "0");
  }

  async function load(file) {
    try {
      const npz = /\.npz$/i.test(file.name);
      if (file.size > Reading.LIMITS.bytes)
        throw new Reading.Refused(
          `${file.name} has ${(file.size / 1e6).toFixed(0)} MB; this page reads ${Reading.LIMITS.bytes / 1e6} MB. Use: forgetless explore FILE`,
        );
      App.tell($("told"), `reading ${file.name} …`);
      await new Promise((done) => setTimeout(done, 20)); // let it be shown
      read = npz
        ? { name: file.name, buffer: await file.arrayBuffer() }
        : { name: file.name, table: Reading.table(await file.text()) };
      columns();
      await use();
    } catch (error) {
      refuse(error);
    }
  }

  function refuse(error) {
    if (!(error instanceof Reading.Refused)) console.warn(error);
    App.tell(
      $("told"),
      error instanceof Reading.Refused
        ? `Not used: ${error.message}`
        : `Not used: it cannot be read (${error.message})`,
      true,
    );
  }

  function columns() {
    $("columns").hidden = !read.table;
    $("options").hidden = false;
    if (!read.table) return;
    const chosen = Reading.guess(read.table.names);
    for (const role of ["task", "target"]) {
      $(role).replaceChildren(
        ...read.table.names.map((name) =>
          Object.assign(document.createElement("option"), { value: name, textContent: name }),
        ),
      );
      $(role).value = chosen[role];
    }
  }

  async function use() {
    if (!read) return;
    try {
      const own = options(),
        source = { kind: "file", name: read.name, ...own };
      let found;
      if (read.table) {
        Object.assign(source, { task: $("task").value, target: $("target").value });
        const { numbers, groups } = Reading.columnsOf(read.table, source.task, source.target);
        found = Reading.grouped(numbers, groups, own);
      } else found = await Npz.read(read.buffer, own);
      source.print = print(found);
      if (read.pasted) source.kind = "pasted";
      const wanted = App.state.print,
        other = wanted && App.state.kind === "data" && wanted !== source.print && !App.source;
      App.use({ ...found, code: null }, source);
      App.tell(
        $("told"),
        `${read.name}: ${found.tasks.length} tasks, ${found.d} features.${other ? " The link was created with other data." : ""}`,
        other,
      );
    } catch (error) {
      refuse(error);
    }
  }

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
    const own = Server.available || location.protocol === "about:",
      text = State.toText(App.state);
    const data = App.state.kind === "data" ? " (your data are not in it)" : "";
    if (own) offer(`Link: the part after # of any copy of this page${data}`, `#${text}`);
    else offer(`Link${data}`, `${location.href.split("#")[0]}#${text}`);
  }

  function code() {
    const order = App.orderNow(),
      { state, tasks, source, now } = App;
    const from = state.kind === "data" && source && source.kind !== "pasted" ? source : null;
    offer("Python", Code.of(state, tasks, from, order && order.own, now.loss[state.k]));
  }

  function legend() {
    return Array.from($("results").tBodies[0].rows, (row) => ({
      row: row.querySelector(".key"),
      text: `${row.cells[0].children[1].textContent}: ${row.cells[1].textContent}`,
    }));
  }

  function listen() {
    const on = (node, event, act) => node.addEventListener(event, act),
      charts = [$("draw"), $("loss")];
    on($("choose"), "click", () => $("file").click());
    on($("file"), "change", () => $("file").files[0] && load($("file").files[0]));
    on($("paste"), "click", () => {
      $("pasting").hidden = false;
      $("table").focus();
    });
    on($("read"), "click", async () => {
      try {
        read = { name: "the table", pasted: true, table: Reading.table($("table").value) };
        columns();
        await use();
      } catch (error) {
        refuse(error);
      }
    });
    for (const id of ["task", "target", "mean", "intercept"]) on($(id), "change", use);
    // A file that misses the box must not replace the page.
    for (const event of ["dragover", "drop"]) on(document, event, (e) => e.preventDefault());
    on($("drop"), "dragover", () => $("drop").classList.add("over"));
    for (const event of ["dragleave", "drop"]) on($("drop"), event, () => $("drop").classList.remove("over"));
    on($("drop"), "drop", (event) => event.dataTransfer.files[0] && load(event.dataTransfer.files[0]));
    on($("link"), "click", link);
    on($("code"), "click", code);
    on($("svg"), "click", () => Export.svg(charts, legend()));
    on($("png"), "click", () => Export.png(charts, legend()));
    on($("csv"), "click", () => Export.csv(App.now.heights, App.now.slope, App.curves()));
  }

  return { listen };
})();
Files.listen();
Controls.start();
