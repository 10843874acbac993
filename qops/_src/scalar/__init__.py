"""The scalar level: its primitives, and its library once built."""
