from tests.unit.adapters.prometheus.conftest import fake

__all__ = ["fake"]
