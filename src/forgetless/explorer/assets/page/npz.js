"use strict";
/* NumPy archives with arrays X, y and groups, read without a library: a zip of .npy files, stored or deflated. */
const Npz = (() => {
  const { Refused } = Reading;

  async function read(buffer, options) {
    if (buffer.byteLength > Reading.LIMITS.bytes) {
      throw new Refused(
        `the file has ${(buffer.byteLength / 1e6).toFixed(0)} MB; this page reads ${Reading.LIMITS.bytes / 1e6} MB. Use: forgetless explore FILE`,
      );
    }
    const found = {};
    for (const { name, bytes } of await entries(buffer)) found[name.replace(/\.npy$/, "")] = () => array(bytes, name);
    const missing = ["X", "y", "groups"].filter((name) => !found[name]);
    if (missing.length)
      throw new Refused(`the archive must hold arrays X, y and groups; ${missing.join(", ")} is missing`);
    const [X, y, groups] = ["X", "y", "groups"].map((name) => found[name]());
    if (
      X.shape.length !== 2 ||
      y.shape.length !== 1 ||
      groups.shape.length !== 1 ||
      X.shape[0] !== y.shape[0] ||
      y.shape[0] !== groups.shape[0]
    ) {
      throw new Refused(
        `X must be (n, d), y (n,) and groups (n,); got (${X.shape}), (${y.shape}) and (${groups.shape})`,
      );
    }
    const [n, d] = X.shape;
    if (!n || !d) throw new Refused("there are no rows or no features");
    Reading.checkFeatures(d);
    const numbers = Array.from({ length: n }, (_, i) => [
      ...Array.from({ length: d }, (_, j) => X.at(i, j, d)),
      y.at(0, i, n),
    ]);
    if (numbers.some((row) => !row.every(Number.isFinite))) throw new Refused("X and y must hold finite numbers only");
    return Reading.grouped(
      numbers,
      Array.from({ length: n }, (_, i) => String(groups.at(0, i, n))),
      options,
    );
  }

  async function entries(buffer) {
    const view = new DataView(buffer),
      found = [];
    let end = buffer.byteLength - 22;
    while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
    if (end < 0) throw new Refused("this is no .npz archive");
    let at = view.getUint32(end + 16, true);
    for (let i = view.getUint16(end + 10, true); i > 0; i--) {
      if (at + 46 > buffer.byteLength || view.getUint32(at, true) !== 0x02014b50)
        throw new Refused("the archive is damaged");
      const method = view.getUint16(at + 10, true),
        size = view.getUint32(at + 20, true),
        start = view.getUint32(at + 42, true);
      const length = view.getUint16(at + 28, true),
        name = new TextDecoder().decode(new Uint8Array(buffer, at + 46, length));
      const skip = 30 + view.getUint16(start + 26, true) + view.getUint16(start + 28, true);
      const bytes = new Uint8Array(buffer, start + skip, size);
      if (method !== 0 && method !== 8) throw new Refused("the archive is compressed in a way this page cannot read");
      found.push({ name, bytes: method ? await inflated(bytes) : bytes });
      at += 46 + length + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
    }
    return found;
  }

  // Stops where more comes out than this page reads: an archive of a few bytes may claim any size.
  async function inflated(bytes) {
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader(),
      parts = [];
    for (let total = 0; ;) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      total += value.length;
      if (total > 8 * Reading.LIMITS.bytes) throw new Refused("the archive holds more than this page reads");
    }
    return new Uint8Array(await new Blob(parts).arrayBuffer());
  }

  const KINDS = {
    f8: Float64Array,
    f4: Float32Array,
    i8: BigInt64Array,
    u8: BigUint64Array,
    i4: Int32Array,
    u4: Uint32Array,
    i2: Int16Array,
    u2: Uint16Array,
    i1: Int8Array,
    u1: Uint8Array,
    b1: Uint8Array,
  };

  // One .npy file: {shape, at(row, column, columns)}
  function array(bytes, name) {
    if (bytes[0] !== 0x93 || new TextDecoder().decode(bytes.subarray(1, 6)) !== "NUMPY")
      throw new Refused(`${name} is no NumPy array`);
    const view = new DataView(bytes.buffer, bytes.byteOffset),
      wide = bytes[6] > 1;
    const length = wide ? view.getUint32(8, true) : view.getUint16(8, true),
      first = (wide ? 12 : 10) + length;
    const text = new TextDecoder().decode(bytes.subarray(wide ? 12 : 10, first));
    const kind = /'descr':\s*'([<>|=])([a-zA-Z])(\d+)'/.exec(text),
      shape = /'shape':\s*\(([^)]*)\)/.exec(text);
    if (!kind || !shape || kind[1] === ">")
      throw new Refused(`${name} has a type this page cannot read; save it as numbers`);
    const dims = shape[1]
      .split(",")
      .filter((part) => part.trim())
      .map(Number);
    const fortran = /'fortran_order':\s*True/.test(text),
      count = dims.reduce((a, b) => a * b, 1);
    const [, , letter, digits] = kind,
      type = KINDS[`${letter}${digits}`],
      body = bytes.slice(first);
    const index = (i, j, columns) => (fortran && dims.length > 1 ? j * dims[0] + i : i * columns + j);
    if (letter === "U" || letter === "S") {
      const width = Number(digits),
        unit = letter === "U" ? 4 : 1,
        data = new DataView(body.buffer);
      const at = (i, j, columns) => {
        const from = index(i, j, columns) * width;
        let word = "";
        for (let c = 0; c < width; c++) {
          const code = unit === 4 ? data.getUint32(4 * (from + c), true) : body[from + c];
          if (code) word += String.fromCodePoint(code);
        }
        return word;
      };
      return { shape: dims, at };
    }
    if (!type || body.length < count * type.BYTES_PER_ELEMENT)
      throw new Refused(`${name} has a type this page cannot read; save it as numbers`);
    const values = new type(body.buffer, 0, count);
    return { shape: dims, at: (i, j, columns) => Number(values[index(i, j, columns)]) };
  }

  return { read };
})();
