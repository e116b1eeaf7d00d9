"""What is idle of GPUs, and what it is good for."""
