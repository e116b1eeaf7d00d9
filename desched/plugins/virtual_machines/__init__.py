"""Virtual machines of KubeVirt: the eviction of their pod migrates them while they run."""
