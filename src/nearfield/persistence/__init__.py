"""Model files: what they hold, how it is checked, and how a model is made of it; imports `estimators` and below."""
