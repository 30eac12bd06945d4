"""Turn the output folder of `nearfield reproduce` into `docs/reproduction.md` and its pictures.

python docs/make_reproduction.py reproduction "A note on the run"
"""

import shutil
import sys
from pathlib import Path

from nearfield.reproduction import FIGURES
from nearfield.reproduction.report import Section, recall_sections

DOCS = Path(__file__).parent
LONG = 20  # rows from which a table goes to the page of all cells

INTRODUCTION = """# The paper, reproduced

Every figure of J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel* (2022), run
again by one command, with our own method beside the paper's:

    make reproduce                         # everything, into reproduction/; `make reproduce ARGS=--quick` for a look
    nearfield reproduce clusters features --data-dir DIR --out reproduction --protocol published --seeds 10

Each figure becomes a PNG, a PDF, a CSV with every number and a Markdown summary, all shown in one `index.html`. A
run that is interrupted goes on where it stopped; `--so-far` shows what there is. Yacht and kin8nm are downloaded
where no folder is named; UK flats has to be put together by hand, and the message says from what.

## How to read it

- **KL** is KL(approximation || exact process), of the predictive distributions of observations, per test point. The
  paper gives sums; they are divided by its number of test points.
- **s.e.** is the difference between our mean and the published one in standard errors of that difference: ours over
  seeds and the published over runs. Within 3 the two *agree*. (Of ten seeds the error
  is itself an estimate; even where nothing differs, one value in a hundred is expected outside.)
- **As published**: the hyperparameters that the authors' optimiser stopped at (20 steps of 0.1 in the logarithms, no
  optimum), yacht unstandardised with 200 training points, kin8nm standardised with 7372. Two of ten seeds of kin8nm
  have the longer length scale 2.63, as theirs had. **Converged**: hyperparameters learnt by `ExactGPRegressor` on
  the same splits.
- The paper's slips are corrected: the sum of Eq. 7 starts at n = 0, the exponent after Eq. 8 is -r²/(2 l²), and the
  first centroid has a model like all others.
- The authors' program shares out the features a little differently than the paper says: truncation degrees start at
  2, and the mean bias takes each sample point with itself too. Without the first, Rademacher features on kin8nm with
  D = 32 and 64 would be truncated at degree 1, and KL would be up to four times the published one; without the
  second, TensorSRHT with D = 1024 would stop a degree short. The experiments follow the program;
  `LocalGPRegressor.from_paper` follows the paper.
- **Ours** is `LocalGPRegressor` with about D unknowns a centre. In the plane, every monomial of the degree that D
  columns afford, on neighbourhoods of radius √p length scales, with the residual correction. In more columns, the
  process itself on neighbourhoods of about D points (yacht), or one centre with low degrees exact (kin8nm, which is
  smooth).
- UK flats are of December 2020, not of January 2022: 13 844 rows instead of 24 553, 3844 test points
  instead of 10 000. Only the order of the methods and the size of KL can be compared.
"""


def main(folder: Path, note: str) -> None:
    """Write the page, the page of all cells, and copy the pictures."""
    sections = recall_sections(list(FIGURES), folder / "cells" / "sections")
    images = DOCS / "images" / "reproduction"
    images.mkdir(parents=True, exist_ok=True)
    for section in sections:
        for file, _ in section.pictures:
            shutil.copyfile(folder / file, images / file)
    short = [_with_tables(s, short=True).markdown("images/reproduction/") for s in sections]
    every = [_with_tables(s, short=False) for s in sections]
    cells = ["# The paper, reproduced: every cell\n", *(_tables(s) for s in every if s.tables)]
    page = [
        INTRODUCTION,
        f"## This run\n\n{note}\n",
        *short,
        "Every cell with its verdict: [all tables](reproduction-cells.md).\n",
    ]
    (DOCS / "reproduction.md").write_text("\n".join(page), encoding="utf-8")
    (DOCS / "reproduction-cells.md").write_text("\n".join(cells), encoding="utf-8")


def _with_tables(section: Section, short: bool) -> Section:
    chosen = [t for t in section.tables if (len(t.rows) < LONG) == short]
    return Section(section.name, section.title, section.pictures, section.findings, chosen)


def _tables(section: Section) -> str:
    return "\n\n".join([f"## {section.title}", *(t.markdown() for t in section.tables)]) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "Complete.")
