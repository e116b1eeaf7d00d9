"""The network between nodes, as objects and labels describe it: what several plugins derive.

The plugin for networks reads the objects. Without it none are known.
"""
