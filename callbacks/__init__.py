"""Lightning callbacks: what a run leaves beside its metrics."""
