"use strict";
/* Spectra, spans and least squares of small matrices, all by one-sided Jacobi rotations, which keep small singular
 * values to full relative accuracy. Matrices are Float64Arrays, row after row. */
const Spectrum = (() => {
  const EPS = 2 ** -52;

  function dot(a, at, b, bt, n) {
    let sum = 0;
    for (let i = 0; i < n; i++) sum += a[at + i] * b[bt + i];
    return sum;
  }

  // Householder: a tall X (n × d) and y become d rows; what y has beyond them is left over.
  function shortened(X, y, n, d) {
    const A = Float64Array.from(X),
      b = Float64Array.from(y);
    for (let j = 0; j < d; j++) {
      let scale = 0,
        sum = 0;
      for (let i = j; i < n; i++) scale = Math.max(scale, Math.abs(A[i * d + j]));
      if (scale === 0) continue;
      for (let i = j; i < n; i++) sum += (A[i * d + j] / scale) ** 2;
      const norm = (A[j * d + j] > 0 ? -1 : 1) * scale * Math.sqrt(sum),
        head = A[j * d + j] - norm;
      // v = (1, A_ij/head): x ← x − v (τ vᵀx)
      const tau = -head / norm;
      for (let i = j + 1; i < n; i++) A[i * d + j] /= head;
      for (let c = j + 1; c < d; c++) {
        let t = A[j * d + c];
        for (let i = j + 1; i < n; i++) t += A[i * d + j] * A[i * d + c];
        t *= tau;
        A[j * d + c] -= t;
        for (let i = j + 1; i < n; i++) A[i * d + c] -= t * A[i * d + j];
      }
      let t = b[j];
      for (let i = j + 1; i < n; i++) t += A[i * d + j] * b[i];
      t *= tau;
      b[j] -= t;
      for (let i = j + 1; i < n; i++) b[i] -= t * A[i * d + j];
      A[j * d + j] = norm;
    }
    const R = new Float64Array(d * d);
    for (let i = 0; i < d; i++) for (let j = i; j < d; j++) R[i * d + j] = A[i * d + j];
    return { R, b: b.slice(0, d), rest: dot(b, d, b, d, n - d) };
  }

  // X = Uᵀ diag(s) V: s decreasing, V (r × d) with orthonormal rows, fit = U y, rest = ‖y − Uᵀ U y‖².
  function spectrum(X, y, n, d) {
    if (!n || !d) return { r: 0, s: [], V: new Float64Array(0), fit: [], rest: dot(y, 0, y, 0, n) };
    const tolerance = Math.max(n, d) * EPS;
    let rest = 0,
      A = X,
      b = y,
      p = n;
    if (n > d) (({ R: A, b, rest } = shortened(X, y, n, d)), (p = d));
    A = Float64Array.from(A);
    const U = new Float64Array(p * p);
    for (let i = 0; i < p; i++) U[i * p + i] = 1;
    for (let sweep = 0, off = 1; off && sweep < 60; sweep++) {
      off = 0;
      for (let i = 0; i < p; i++) {
        for (let j = i + 1; j < p; j++) {
          const aa = dot(A, i * d, A, i * d, d),
            bb = dot(A, j * d, A, j * d, d),
            ab = dot(A, i * d, A, j * d, d);
          if (ab === 0 || Math.abs(ab) <= EPS * Math.sqrt(aa) * Math.sqrt(bb)) continue;
          off++;
          const z = (bb - aa) / (2 * ab),
            t = (z < 0 ? -1 : 1) / (Math.abs(z) + Math.hypot(1, z));
          const c = 1 / Math.sqrt(1 + t * t);
          rotate(A, i * d, j * d, d, c, c * t);
          rotate(U, i * p, j * p, p, c, c * t);
        }
      }
    }
    const norms = Float64Array.from({ length: p }, (_, i) => Math.sqrt(dot(A, i * d, A, i * d, d)));
    const top = Math.max(...norms);
    const kept = [...norms.keys()].filter((i) => norms[i] > tolerance * top).sort((i, j) => norms[j] - norms[i]);
    const r = kept.length,
      V = new Float64Array(r * d),
      left = Float64Array.from(b);
    const fit = kept.map((i) => dot(U, i * p, b, 0, p));
    kept.forEach((i, at) => {
      for (let j = 0; j < d; j++) V[at * d + j] = A[i * d + j] / norms[i];
      for (let j = 0; j < p; j++) left[j] -= fit[at] * U[i * p + j];
    });
    return { r, s: kept.map((i) => norms[i]), V, fit, rest: rest + dot(left, 0, left, 0, p) };
  }

  function rotate(A, at, bt, n, c, s) {
    for (let l = 0; l < n; l++) {
      const u = A[at + l],
        v = A[bt + l];
      A[at + l] = c * u - s * v;
      A[bt + l] = s * u + c * v;
    }
  }

  // The shortest z that minimises ‖A z − b‖², with the spectrum it came from.
  function leastNorm(A, b, n, d) {
    const found = spectrum(A, b, n, d),
      z = new Float64Array(d);
    found.s.forEach((s, i) => {
      for (let j = 0; j < d; j++) z[j] += (found.fit[i] / s) * found.V[i * d + j];
    });
    return { ...found, z };
  }

  // Rows of unit length that span all, the strongest first, an orthonormal basis from them, and C with rows = C · those.
  function spanningRows(rows, weights, n, q) {
    const rest = Float64Array.from(rows),
      basis = [],
      chosen = [],
      tolerance = 4 * Math.sqrt(q) * EPS;
    while (chosen.length < Math.min(n, q)) {
      let pivot = -1,
        best = 0,
        length = 0;
      for (let i = 0; i < n; i++) {
        if (chosen.includes(i)) continue;
        const norm = Math.sqrt(dot(rest, i * q, rest, i * q, q));
        if (norm > tolerance && weights[i] * norm > best) [pivot, best, length] = [i, weights[i] * norm, norm];
      }
      if (pivot < 0) break;
      const fresh = rest.slice(pivot * q, pivot * q + q).map((x) => x / length);
      for (const old of basis) {
        const t = dot(old, 0, fresh, 0, q);
        for (let j = 0; j < q; j++) fresh[j] -= t * old[j];
      }
      const norm = Math.sqrt(dot(fresh, 0, fresh, 0, q));
      for (let j = 0; j < q; j++) fresh[j] /= norm;
      basis.push(fresh);
      chosen.push(pivot);
      for (let i = 0; i < n; i++) {
        const t = dot(rest, i * q, fresh, 0, q);
        for (let j = 0; j < q; j++) rest[i * q + j] -= t * fresh[j];
      }
    }
    // Rows of the chosen are lower triangular in the basis: C solves C · lower = parts, from the last column on.
    const m = chosen.length,
      C = new Float64Array(n * m);
    const part = (i, j) => dot(rows, i * q, basis[j], 0, q);
    const lower = chosen.map((i) => basis.map((_, j) => part(i, j)));
    for (let i = 0; i < n; i++) {
      for (let j = m - 1; j >= 0; j--) {
        let t = part(i, j);
        for (let l = j + 1; l < m; l++) t -= C[i * m + l] * lower[l][j];
        C[i * m + j] = t / lower[j][j];
      }
    }
    chosen.forEach((i, at) => {
      for (let j = 0; j < m; j++) C[i * m + j] = at === j ? 1 : 0;
    });
    return { chosen, basis, C };
  }

  return { EPS, dot, spectrum, leastNorm, spanningRows };
})();
