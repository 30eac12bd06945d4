"""The experiments of the paper, figure by figure: what `nearfield reproduce` runs.

`settings.py` says what is asked for, `problems.py` the data, splits and hyperparameters of the two protocols,
`methods.py` the approximations compared, `cells.py` and `cache.py` run them and remember what was done, `published.py`,
`verdicts.py` and `comparing.py` hold the results against the paper's, `report.py` writes pages; one module per figure
puts these together.
"""

from .reproduce import FIGURES, reproduce
from .settings import Settings

__all__ = ["FIGURES", "Settings", "reproduce"]
