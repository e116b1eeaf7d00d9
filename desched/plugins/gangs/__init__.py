"""Gangs: pods that need each other stay together, leave one by one above the minimum, or whole."""
