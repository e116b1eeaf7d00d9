"""Where the checkout is, for tests that read its documents, policies and manifests."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
