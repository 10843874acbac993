"""The avx2 level: its primitives, and its library once built."""
