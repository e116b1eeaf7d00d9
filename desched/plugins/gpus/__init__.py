"""GPUs: what is idle of them and what it is good for, and nodes drained for what waits for them."""
