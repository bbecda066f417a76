"""Means of random runs compared with the exact expectation."""

import numpy as np

import forgetless as fl


def main() -> None:
    """Print means of 10 to 10 000 runs beside the exact value."""
    tasks = fl.theory.constructions.rare_tasks(200)
    schedule, k = fl.schedules.increasing(), 200
    exact = fl.expect(tasks, schedule, k).average_loss[0]
    print(f"{tasks}\nexact expected loss after {k} steps: {exact:.8f}\n")
    print(f"{'runs':>8}{'mean':>14}{'standard error':>18}{'relative error':>18}")
    for n_trials in (10, 100, 1000, 10_000):
        losses = fl.simulate(
            tasks, schedule, k, n_trials=n_trials, seed=0, record="last"
        ).average_loss[:, 0]
        error = losses.std() / np.sqrt(n_trials)
        print(
            f"{n_trials:>8}{losses.mean():>14.8f}{error:>18.2e}"
            f"{abs(losses.mean() / exact - 1):>18.2%}"
        )


if __name__ == "__main__":
    main()
