"""Forgetting on two collections: one where no regularization is best, one where a schedule
helps.
"""

import numpy as np

import forgetless as fl

K, TRIALS = 1000, 200

SCHEDULES = {
    "no regularization": fl.Projection(),
    "fixed  λ = R²(ln k − 1)": fl.schedules.fixed(),
    "increasing  (scale 13/3)": fl.schedules.increasing(),
    "increasing  (scale 1/2)": fl.schedules.increasing(scale=0.5),
}


def random_tasks() -> fl.TaskCollection:
    """Return twenty random tasks of five rows in fifty dimensions that one teacher fits."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(50)
    return fl.TaskCollection([(X := rng.standard_normal((5, 50)), X @ w) for _ in range(20)])


def noisy_tasks() -> fl.TaskCollection:
    """Return twenty tasks of one row in five dimensions with label noise: their solutions
    differ.
    """
    rng = np.random.default_rng(1)
    w = rng.standard_normal(5)
    return fl.TaskCollection(
        [(X := rng.standard_normal((1, 5)), X @ w + rng.standard_normal(1)) for _ in range(20)],
    )


def main() -> None:
    """Print the mean final losses of every schedule on both collections."""
    for title, tasks in (
        ("One teacher fits all tasks", random_tasks()),
        ("Noisy labels", noisy_tasks()),
    ):
        best = float(fl.metrics.average_loss(tasks, tasks.teacher()))
        print(f"\n{title}: {tasks}")
        print(
            f"{K} steps in random order, mean of {TRIALS} runs; the smallest possible average loss"
            f" is {best:.3g}\n"
        )
        print(
            f"{'schedule':<28}{'average loss':>14}{'seen-task loss':>16}"
            f"{'forgetting':>13}{'drift':>12}"
        )
        for name, schedule in SCHEDULES.items():
            trace = fl.simulate(tasks, schedule, K, n_trials=TRIALS, seed=1, record="last")
            cells = [trace.average_loss, trace.seen_loss, trace.forgetting, trace.drift]
            print(
                f"{name:<28}"
                + "".join(
                    f"{x.mean():>{w}.3g}" for x, w in zip(cells, (14, 16, 13, 12), strict=True)
                )
            )
    print(
        "\nThe schedules protect against the worst case; on easy tasks without noise, no"
        " regularization is often best."
    )


if __name__ == "__main__":
    main()
