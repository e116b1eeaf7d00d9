"""One module for each command: how it is declared, what it does, and what it prints."""
