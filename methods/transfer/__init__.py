"""Methods that learn from other tables."""
