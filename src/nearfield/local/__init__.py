"""Local models: cells and centres, neighbourhoods, models, prediction, and the choice among approximations."""
