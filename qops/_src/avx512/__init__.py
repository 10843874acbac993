"""The avx512 level: its primitives, and its library once built."""
