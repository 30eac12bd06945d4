"""What a fitted model says of itself: report, summary, frames, grids, plots, page.

It knows models by what they show, and imports `common` alone.
"""
