"""What people and programs see: computed once, and written as text, as a page or as JSON."""
