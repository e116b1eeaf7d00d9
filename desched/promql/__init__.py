"""How a load is asked of Prometheus and whether it can be trusted, without a connection."""
