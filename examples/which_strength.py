"""The best fixed strength on your tasks: a thousand coefficients in one exact batch."""

import numpy as np

import forgetless as fl


def main() -> None:
    """Print the best coefficient and its loss for clean and noisy labels, and several horizons."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(6)
    rows = [rng.standard_normal((2, 6)) for _ in range(15)]
    print(f"{'labels':<10}{'k':>6}{'best λ/R²':>12}{'its loss':>12}{'no reg.':>12}{'increasing':>12}")
    for noise in (0.0, 0.5):
        tasks = fl.TaskCollection([(X, X @ w + noise * rng.standard_normal(2)) for X in rows])
        coefficients = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 1000)]) * tasks.radius**2
        for k in (10, 100, 1000):
            losses = fl.expect(tasks, [fl.Ridge(c) for c in coefficients], k).average_loss[:, 0]
            other = fl.expect(tasks, fl.schedules.increasing(), k).average_loss[0]
            best = int(np.argmin(losses))
            label = "noisy" if noise else "clean"
            strength = coefficients[best] / tasks.radius**2
            print(f"{label:<10}{k:>6}{strength:>12.3g}{losses[best]:>12.3g}{losses[0]:>12.3g}{other:>12.3g}")


if __name__ == "__main__":
    main()
