"""Papers of the field in a few lines each: a statement of each paper beside the number that
forgetless computes for it.

``python -m papers`` prints all statements; ``python -m papers figure.png`` draws four of their
figures. A paper is a module with its name, ``PAPER``, and a function ``statements()``.
"""

from papers import (
    attia2025,
    banayeeanzade2025,
    doan2021,
    evron2022,
    goldfarb2024,
    hiratani2024,
    karpel2026,
    levinstein2025,
    li2023,
    li2026,
    lin2023,
    swartworth2023,
    tsipory2025,
)

PAPERS = (
    levinstein2025,
    lin2023,
    karpel2026,
    goldfarb2024,
    banayeeanzade2025,
    hiratani2024,
    li2023,
    li2026,
    evron2022,
    swartworth2023,
    attia2025,
    tsipory2025,
    doan2021,
)
