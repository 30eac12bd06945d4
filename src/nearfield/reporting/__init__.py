"""What a fitted model says of itself: report, frames, grids, plots, page."""
