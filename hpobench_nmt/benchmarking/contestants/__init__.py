"""Methods by name: where they come from, their settings, what identifies them, programs."""
