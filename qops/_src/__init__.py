"""C sources: one library per instruction-set level, and what they share."""
