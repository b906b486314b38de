"""Checks of tables: facts about rows, surfaces and learning curves."""
