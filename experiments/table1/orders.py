"""The orders of the paper's Table 1, as written and as exponents of |D| for the setting measured here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Orders:
    """What a method should cost.

    Attributes:
        title: its name in the table.
        training: order of training all models.
        storage: order of what is kept.
        estimation: order of one query against all rows.
        exponents: of |D| in the three, at fixed epochs, batches and network.
    """

    title: str
    training: str
    storage: str
    estimation: str
    exponents: tuple[int, int, int]


# T = epochs · |D| / B steps, and rt ≈ |D| as the paper says: both grow with |D|.
ORDERS = {
    "retrain": Orders("Re-train", "O(|D|²)", "O(|θ||D|)", "O(F|D|)", (2, 1, 1)),
    "hara": Orders("Hara+", "O(|D|)", "O(|θ|T)", "O(F|D| + (F+F')TB)", (1, 1, 1)),
    "koh": Orders("Koh+", "O(|D|)", "O(|θ|)", "O(F|D| + (F+F')rtb)", (1, 0, 1)),
    "feldman": Orders("Feldman & Zhang", "O(m|D|)", "O(m|θ|)", "O(mF + m|D|)", (1, 0, 1)),
    "turnover": Orders("turn-over dropout", "O(|D|)", "O(|θ|)", "O(F|D|)", (1, 0, 1)),
}
