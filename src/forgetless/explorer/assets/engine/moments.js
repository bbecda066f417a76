"use strict";
/* The equation w ← w − φ_t(XᵀX) (w − X⁺y) on second moments.
 *
 * For a task drawn with probabilities p the moment of the state follows S ← Σ_m p_m M_m S M_mᵀ = S − A − Aᵀ with A = Lᵀ Y
 * and Y_m = p_m φ (R_m S − ½ (R_m S R_mᵀ) φ L_m). A + Aᵀ is formed as one half and mirrored: an antisymmetric rounding
 * error would not be contracted but grow. Backwards, a loss as a form of S follows the same with L and R exchanged. */
const Moments = (() => {
  const { dot } = Spectrum;

  // ---- filters: the share of each direction that a step learns -----------------------------------------------------
  function budgetShare(u, N) {
    if (u < 1) return -Math.expm1(N * Math.log1p(-u));
    return 1 - (u - 1) ** N * (N % 2 ? -1 : 1);
  }

  function shares(prob, plan) {
    const { n, s } = prob,
      { k, scheme, values, other } = plan,
      phi = new Float64Array(k * n);
    for (let t = 0; t < k; t++) {
      const x = values[t];
      for (let j = 0; j < n; j++) {
        if (scheme === "ridge") phi[t * n + j] = 1 / (1 + x / s[j] / s[j]);
        else
          phi[t * n + j] =
            scheme === "size" ? budgetShare(x * s[j] * s[j], other) : budgetShare(other * s[j] * s[j], x);
      }
    }
    return phi;
  }

  // ∂φ_j/∂(the value drawn); of N as if it were real
  function shareSlope(prob, plan, phi, t, j) {
    const s = prob.s[j],
      x = plan.values[t];
    if (plan.scheme === "ridge") return -((phi[t * prob.n + j] / s) ** 2);
    if (plan.scheme === "size") return plan.other * s * s * (1 - x * s * s) ** (plan.other - 1);
    const kept = 1 - plan.other * s * s;
    return kept > 0 ? -(kept ** x) * Math.log(kept) : 0;
  }

  // ---- one step of moments -----------------------------------------------------------------------------------------
  // Buffers for T = right·S and W = (T rightᵀ) φ left of all directions, and one task's products.
  function scratch({ n, D, offsets }) {
    const most = Math.max(0, ...offsets.slice(1).map((o, m) => o - offsets[m]));
    return {
      T: new Float64Array(n * D),
      W: new Float64Array(n * D),
      Y: new Float64Array(2 * D),
      K: new Float64Array(most * most),
    };
  }

  // C_ij = A_i · B_j of n and m rows of length D, in blocks of two by two: four sums that do not wait for each other
  function inner(A, at, n, B, bt, m, D, C, ct) {
    for (let i = 0; i < n; i += 2) {
      const a0 = at + i * D,
        a1 = i + 1 < n ? a0 + D : a0; // of an odd number the last row goes with itself
      for (let j = 0; j < m; j += 2) {
        const b0 = bt + j * D,
          b1 = j + 1 < m ? b0 + D : b0;
        let p = 0,
          q = 0,
          r = 0,
          s = 0;
        for (let l = 0; l < D; l++) {
          const x = A[a0 + l],
            y = A[a1 + l],
            u = B[b0 + l],
            v = B[b1 + l];
          p += x * u;
          q += x * v;
          r += y * u;
          s += y * v;
        }
        const to = ct + i * m + j;
        C[to] = p;
        if (b1 > b0) C[to + 1] = q;
        if (a1 > a0) C[to + m] = r;
        if (a1 > a0 && b1 > b0) C[to + m + 1] = s;
      }
    }
  }

  function products(prob, S, at, phi, pt, left, right, buffer, low, high) {
    const { D, offsets } = prob,
      { T, W, K } = buffer;
    for (let m = low; m < high; m++) {
      const first = offsets[m],
        r = offsets[m + 1] - first,
        own = first * D;
      inner(right, own, r, S, at, D, D, T, own); // S is symmetric: its rows are its columns
      inner(T, own, r, right, own, r, D, K, 0);
      for (let i = 0; i < r; i++) {
        const o = own + i * D;
        for (let a = 0; a < D; a++) W[o + a] = 0;
        for (let j = r & 1 ? -1 : 0; j < r; j += 2) {
          const x = j < 0 ? 0 : K[i * r + j] * phi[pt + first + j],
            y = K[i * r + j + 1] * phi[pt + first + j + 1],
            c = own + Math.max(j, 0) * D,
            d = own + (j + 1) * D;
          for (let a = 0; a < D; a++) W[o + a] += x * left[c + a] + y * left[d + a];
        }
      }
    }
  }

  // target −= Σ_m p_m (what a step on task m takes from the moment that T and W were made of)
  function collect(prob, phi, pt, left, buffer, low, high, target, to) {
    const { D, offsets, w } = prob,
      { T, W, Y } = buffer,
      end = offsets[high];
    for (let i = offsets[low]; i < end; i += 2) {
      const o = i * D,
        p = i + 1 < end ? o + D : o, // two rows at once touch the target half as often
        f = w[i] * phi[pt + i],
        g = p > o ? w[i + 1] * phi[pt + i + 1] : 0;
      for (let a = 0; a < D; a++) {
        Y[a] = f * (T[o + a] - 0.5 * W[o + a]);
        Y[D + a] = g * (T[p + a] - 0.5 * W[p + a]);
      }
      for (let a = 0; a < D; a++) {
        const l = left[o + a],
          y = Y[a],
          m = left[p + a],
          z = Y[D + a];
        for (let b = a, row = to + a * D + a; b < D; b++, row++) {
          target[row] -= l * Y[b] + y * left[o + b] + (m * Y[D + b] + z * left[p + b]);
        }
      }
    }
    let most = 0;
    for (let a = 0; a < D; a++) {
      for (let b = a; b < D; b++) {
        const x = target[to + a * D + b];
        target[to + b * D + a] = x;
        most = Math.max(most, Math.abs(x));
      }
    }
    // Numbers below 1e-308 are computed with a hundred times slower, and mean nothing here.
    if (most < 1e-280) target.fill(0, to, to + D * D);
  }

  function decrease(prob, S, at, phi, pt, left, right, buffer, low, high, target, to) {
    products(prob, S, at, phi, pt, left, right, buffer, low, high);
    collect(prob, phi, pt, left, buffer, low, high, target, to);
  }

  function start({ D, state }) {
    const S = new Float64Array(D * D);
    for (let a = 0; a < D; a++) for (let b = 0; b < D; b++) S[a * D + b] = state[a] * state[b];
    return S;
  }

  // Σ_j weight_j s_j² R_jᵀ R_j over the directions of tasks low..high−1
  function form({ D, R, s, w, offsets }, low, high, weighted) {
    const H = new Float64Array(D * D);
    for (let j = offsets[low]; j < offsets[high]; j++) {
      const scale = (weighted ? w[j] : 1) * s[j] * s[j];
      for (let a = 0; a < D; a++) for (let b = 0; b < D; b++) H[a * D + b] += scale * (R[j * D + a] * R[j * D + b]);
    }
    return H;
  }

  // ½ Σ_j weight_j s_j² R_j S R_jᵀ
  function half({ D, R, s, w, offsets }, S, low, high, weighted) {
    let total = 0;
    for (let j = offsets[low]; j < offsets[high]; j++) {
      let square = 0;
      for (let a = 0, o = j * D; a < D; a++) square += R[o + a] * dot(S, a * D, R, o, D);
      total += (weighted ? w[j] : 1) * s[j] * s[j] * square;
    }
    return 0.5 * total;
  }

  return {
    shares,
    shareSlope,
    scratch,
    products,
    collect,
    decrease,
    start,
    form,
    half,
  };
})();
