"""An ``Anchor`` as a plugin of Avalanche: one λ for every experience."""

from collections.abc import Callable, Mapping
from typing import Any

try:
    from avalanche.training.plugins import SupervisedPlugin
except ImportError as error:
    raise ImportError(
        "flt.AvalanchePlugin needs Avalanche, which is not installed here: python -m pip install avalanche-lib==0.6.0"
    ) from error
from torch.utils.data import DataLoader

from forgetless.torch.anchor import Anchor
from forgetless.torch.importance import PathIntegral, fisher, mas
from forgetless.torch.schedules import check_choice


class AvalanchePlugin(SupervisedPlugin):  # type: ignore[misc]
    """Regularize a strategy's model towards its weights after earlier experiences: an ``Anchor`` for Avalanche.

    It makes a proximal step after every update, follows models that grow and optimizers that are replaced, and closes a
    task after every experience. Weights are those of a plain loop with an ``Anchor``, bit for bit.

    Parameters
    ----------
    schedule : number, sequence, callable, schedule or filter
        λ_t, as in ``Anchor``.
    n_experiences : int, optional
        k, the horizon; if omitted, any number, as in ``Anchor``.
    importance : {"fisher", "mas", "si"} or callable, optional
        Ω of every experience: from its training data, from the path of the weights, or ``importance(strategy)``, a
        dictionary by parameter name. For models that take the inputs alone.
    n_samples : int, optional
        Samples of the experience that ``"fisher"`` and ``"mas"`` look at; all if omitted.
    **options
        Of ``Anchor``: ``center``, ``metric``, ``start``, ``beyond``.

    Attributes
    ----------
    anchor : Anchor or None
        The anchor, from the first experience on; put its ``state_dict`` into checkpoints.

    Examples
    --------
    >>> import forgetless as fl, forgetless.torch as flt
    >>> plugin = flt.AvalanchePlugin(fl.schedules.increasing(scale=1.0), n_experiences=5, importance="fisher")

    Then ``Naive(model=…, optimizer=…, plugins=[plugin])``, or any other strategy that trains by an optimizer.
    """

    def __init__(
        self,
        schedule: Any,
        n_experiences: int | None = None,
        importance: str | Callable[[Any], Mapping[str, Any]] | None = None,
        n_samples: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if isinstance(importance, str):
            check_choice("importance", importance, ("fisher", "mas", "si"))
        self.schedule, self.n_experiences, self.options = schedule, n_experiences, options
        self.importance, self.n_samples = importance, n_samples
        self.anchor: Anchor | None = None
        self._path: PathIntegral | None = None

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Follow the model and the optimizer, which Avalanche may have changed."""
        if self.anchor is None:
            self.anchor = Anchor(
                strategy.model, strategy.optimizer, self.schedule, self.n_experiences, mode="manual", **self.options
            )
        else:
            self.anchor.grow(strategy.model, strategy.optimizer)
        _ = self.anchor.strength  # past the horizon it raises, before weights move
        if self.importance == "si":
            self._path = PathIntegral(strategy.model, strategy.optimizer)

    def after_update(self, strategy: Any, **kwargs: Any) -> None:
        """Make one proximal step."""
        assert self.anchor is not None
        self.anchor.step()

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Close the task."""
        assert self.anchor is not None
        self.anchor.next_task(self._weights(strategy))

    def _weights(self, strategy: Any) -> Any:
        if self.importance is None:
            return None
        if self._path is not None:
            path, self._path = self._path, None
            path.remove()
            return path.importance()
        if callable(self.importance):
            return self.importance(strategy)
        data = strategy.adapted_dataset
        loader = DataLoader(data, batch_size=strategy.train_mb_size, collate_fn=getattr(data, "collate_fn", None))
        of = fisher if self.importance == "fisher" else mas
        return of(strategy.model, loader, n_samples=self.n_samples)
