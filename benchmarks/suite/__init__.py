"""The asv suite; cases.py holds the list of what is measured."""
