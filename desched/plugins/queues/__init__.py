"""Queues of Kueue and Volcano: a replacement may wait again, and others may take its share."""
