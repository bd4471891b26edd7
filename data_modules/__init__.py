"""Lightning data modules: how recordings reach training."""
