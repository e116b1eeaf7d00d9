"""Gangs, as objects and marks of pods describe them: what several plugins derive.

The plugin for gangs reads the objects. Without it none are known.
"""
