"""What a run is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROTOCOLS = ("published", "converged")
DATA = ("uk_flats", "yacht", "kin8nm")
TITLES = {"uk_flats": "UK flats", "yacht": "yacht", "kin8nm": "kin8nm"}

# Flats cost the most, and being of another month are not compared seed by seed.
_SEEDS = {
    "published": {"uk_flats": 3, "yacht": 10, "kin8nm": 10},
    "converged": {"uk_flats": 1, "yacht": 5, "kin8nm": 2},
}
_QUICK_SEEDS = {
    "published": {"uk_flats": 1, "yacht": 3, "kin8nm": 1},
    "converged": {"uk_flats": 1, "yacht": 1, "kin8nm": 1},
}
_QUICK_SIZES = {"uk_flats": (1500, 500), "yacht": (200, 108), "kin8nm": (1500, 300)}
SIZES = {"uk_flats": (10_000, 3844), "yacht": (200, 108), "kin8nm": (7372, 820)}


@dataclass(frozen=True)
class Settings:
    """What to compute, from what, and where to put it."""

    out: Path  # folder of the results, and of the cells already computed
    data_dir: Path | None = None
    seeds: int | None = None  # splits and draws; None takes each data set's own number
    quick: bool = False  # smaller training sets and fewer cells: a look at everything, not a comparison
    protocols: tuple[str, ...] = PROTOCOLS
    compute: bool = True  # otherwise the clusters and features figures show what earlier runs computed, and no more

    def n_seeds(self, data: str, protocol: str) -> int:
        """How many splits of a data set."""
        if self.seeds is not None:
            return self.seeds
        return (_QUICK_SEEDS if self.quick else _SEEDS)[protocol][data]

    def sizes(self, data: str) -> tuple[int, int]:
        """Training and test points."""
        return (_QUICK_SIZES if self.quick else SIZES)[data]

    @property
    def spacings(self) -> tuple[float, ...]:
        """Thresholds theta of the clusters figure, in length scales."""
        return (16.0, 4.0, 2.0, 1.0) if self.quick else (16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125)

    def is_full(self, data: str) -> bool:
        """Whether the training set has the paper's size, so that results can be compared."""
        return self.sizes(data) == SIZES[data]

    @property
    def cluster_sizes(self) -> tuple[int, ...]:
        """`D` of the clusters figure."""
        return (32, 64) if self.quick else (32, 64, 256)

    @property
    def feature_sizes(self) -> tuple[int, ...]:
        """`D` of the features figure."""
        return (32, 64, 128) if self.quick else (32, 64, 128, 256, 512, 1024)
