"""What is known of the objects of the API without a connection: rights, JSON, decoding, bounds.

The adapter reads all kinds with it, and plugins declare with it the kinds that they read.
"""
