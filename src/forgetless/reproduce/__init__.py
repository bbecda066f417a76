"""The paper's figure and table from exact computations, as tables of numbers; ``plots`` draws them."""

from forgetless.reproduce.tables import curves, optimum, rates, reduction, slopes

__all__ = ["curves", "optimum", "rates", "reduction", "slopes"]
