"""A custom filter, gradient flow, in simulation, exact expectation and the reduction."""

from dataclasses import dataclass

import numpy as np

import forgetless as fl


@dataclass(frozen=True, eq=False)
class GradientFlow(fl.Filter):
    """Gradient flow on the loss of a task for a time: φ(ξ) = 1 − exp(−ξ·time)."""

    time: float

    def factors(self, eigenvalues):
        """Return the filter factors φ(ξ)."""
        return -np.expm1(-self.time * eigenvalues)


def main() -> None:
    """Print the losses of decreasing times beside those of the corresponding increasing
    schedule.
    """
    tasks = fl.theory.constructions.rare_tasks(128)
    k = 128
    times = np.array(fl.theory.linear_decay(k, 3 / (13 * tasks.radius**2)))
    flow, ridge = GradientFlow(times), fl.schedules.increasing()
    for name, schedule in (("gradient flow", flow), ("explicit L2", ridge)):
        exact = fl.expect(tasks, schedule, k).average_loss[0]
        mean = fl.simulate(
            tasks, schedule, k, n_trials=2000, seed=0, record="last"
        ).average_loss.mean()
        worst = fl.worst_case(tasks, schedule, k).worst_case[0]
        print(f"{name:<14} exact {exact:.6f}   simulated {mean:.6f}   k·worst case {k * worst:.3f}")
    check = fl.theory.check_reduction(tasks, flow[0], step_size=times[0])
    print(
        f"\nits surrogates: smoothness {check.smoothness:.4f}, excess loss between"
        f" {check.lower:.4f} and",
        end=" ",
    )
    print(
        f"{check.upper:.4f} times their value (measured {check.smallest_ratio:.4f} to"
        f" {check.largest_ratio:.4f})"
    )


if __name__ == "__main__":
    main()
