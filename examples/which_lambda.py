"""Which λ? Advice for clean and noisy labels and several horizons, and the shape of the optimal
schedule.
"""

import numpy as np

import forgetless as fl

BARS = " ▁▂▃▄▅▆▇█"


def tasks_with(noise: float) -> fl.TaskCollection:
    """Return fifteen tasks of two rows in twelve dimensions with one teacher and label noise."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(12)
    return fl.TaskCollection(
        [
            (X := rng.standard_normal((2, 12)), X @ w + noise * rng.standard_normal(2))
            for _ in range(15)
        ]
    )


def main() -> None:
    """Print the advice, its losses beside the usual choices, and the optimal coefficients."""
    print(
        f"{'labels':<7}{'k':>5} "
        f" {'advice':<58}{'loss':>11}{'constant':>11}{'no reg.':>11}{'theorem':>11}"
    )
    for name, noise in (("clean", 0.0), ("noisy", 0.5)):
        tasks = tasks_with(noise)
        for k in (10, 50, 200):
            advice = fl.advise(tasks, k)
            losses = {option.shape: option.loss for option in advice.options}
            others = [
                losses[shape] for shape in ("constant", "no regularization", "increasing, theorem")
            ]
            cells = "".join(f"{loss:>11.3g}" for loss in (advice.options[0].loss, *others))
            print(f"{name:<7}{k:>5}  {advice.options[0].code:<58}{cells}")
    print("\nλ_t of the optimal schedule, k = 64, first step on the left, highest bar = largest:")
    for name, noise in (("clean", 0.0), ("noisy", 0.5)):
        best = fl.optimal_schedule(tasks_with(noise), 64, monotone=True)
        heights = np.array(best.coefficients) / max(best.coefficients)
        bars = "".join(BARS[round(8 * height)] for height in heights)
        print(f"  {name}  |{bars}|  {100 * best.gap:.0f} % below the best constant")
    print(f"\n{fl.advise(tasks_with(0.5), 100)}")


if __name__ == "__main__":
    main()
