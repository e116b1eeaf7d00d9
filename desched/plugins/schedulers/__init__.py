"""Other schedulers: where Volcano and KAI would place pods."""
