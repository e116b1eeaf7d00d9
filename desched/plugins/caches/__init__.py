"""Model caches: a pod stays near the models that it loads when it starts."""
