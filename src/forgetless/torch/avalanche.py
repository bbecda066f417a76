"""``Continual`` as a plugin of Avalanche: one task for every experience."""

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

try:
    from avalanche.training.plugins import SupervisedPlugin
except ImportError as error:
    raise ImportError(
        "flt.AvalanchePlugin needs Avalanche, which is not installed here: python -m pip install"
        " avalanche-lib==0.6.0"
    ) from error
from torch.utils.data import DataLoader

from forgetless.torch.importance import fisher, mas
from forgetless.torch.path_integral import PathIntegral
from forgetless.torch.schedules import check_choice
from forgetless.torch.trainers import Follower


class AvalanchePlugin(Follower, SupervisedPlugin):  # type: ignore[misc]
    """Train a strategy's model on one experience after another by the mechanisms of ``Continual``.

    It makes a proximal step after every update, follows models that grow and optimizers that are
    replaced, and closes a task after every experience. Weights are those of a plain loop, bit for
    bit.

    Parameters
    ----------
    schedule : number, sequence, callable, schedule or filter, optional
        λ_t of the proximal term, as in ``Anchor``: a number is the same for all experiences.
    n_experiences : int, optional
        k, the horizon; if omitted, any number, as in ``Anchor``.
    importance : {"fisher", "mas", "si"} or callable, optional
        Ω of every experience: from its training data, from the path of the weights, or
        ``importance(strategy)``, a dictionary by parameter name. For models that take the inputs
        alone.
    n_samples : int, optional
        Samples of the experience that ``"fisher"`` and ``"mas"`` look at; all if omitted.
    **options
        Of ``Continual``: ``step_size``, ``average``, ``start``, ``beyond``, ``center``, ``metric``.

    Attributes
    ----------
    continual : Continual or None
        From the first experience on; put its ``state_dict`` into checkpoints, and evaluate in
        ``with plugin.continual.averaged_weights():``.

    Examples
    --------
    >>> import forgetless as fl, forgetless.torch as flt
    >>> plugin = flt.AvalanchePlugin(fl.schedules.increasing(scale=1.0), n_experiences=5,
    ...     importance="fisher")

    Then ``Naive(model=…, optimizer=…, plugins=[plugin])``, or any other strategy that trains by an
    optimizer.
    """

    def __init__(
        self,
        schedule: Any = None,
        n_experiences: int | None = None,
        importance: str | Callable[[Any], Mapping[str, Any]] | None = None,
        n_samples: int | None = None,
        **options: Any,
    ) -> None:
        if isinstance(importance, str):
            check_choice("importance", importance, ("fisher", "mas", "si"))
        if importance == "si" and options.get("start") is True:
            raise ValueError(
                "importance='si' has no path before the first experience; give start a dict, or"
                " leave it"
            )
        if isinstance(schedule, Real):
            fixed = float(schedule)
            schedule = lambda _: fixed  # noqa: E731
        weights = None if importance is None else lambda _, strategy: self._weights(strategy)
        super().__init__(weights, proximal=schedule, n_tasks=n_experiences, **options)
        self.kind, self.n_samples = importance, n_samples
        self._path: PathIntegral | None = None

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Follow the model and the optimizer, which Avalanche may have changed."""
        self.begin_task(strategy.model, strategy.optimizer, strategy)
        if self.kind == "si":
            self._path = PathIntegral(strategy.model, strategy.optimizer)

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Close the task."""
        self.end_task(strategy.model, strategy)

    def _weights(self, strategy: Any) -> Any:
        if self.kind == "si":
            if self._path is None:
                raise RuntimeError(
                    "the path of this experience was used up by an attempt to close it; train it"
                    " again"
                )
            importance = self._path.importance()
            self._path.remove()
            self._path = None
            return importance
        if callable(self.kind):
            return self.kind(strategy)
        data = strategy.adapted_dataset
        loader = DataLoader(
            data, batch_size=strategy.train_mb_size, collate_fn=getattr(data, "collate_fn", None)
        )
        of = fisher if self.kind == "fisher" else mas
        return of(strategy.model, loader, n_samples=self.n_samples)
