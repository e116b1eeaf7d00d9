"""Reads what ran where, when, and what it used, over days: range queries in bounded chunks."""
