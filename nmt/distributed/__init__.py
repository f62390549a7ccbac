"""Several processes on one job."""
