"""What is known of the objects of the API without a connection: rights, JSON, decoding, bounds.

The adapter reads all kinds with it, and plugins say with it which kinds they read beside.
"""
