"""How reasons, numbers and times are put into words for people."""
