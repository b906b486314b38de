"""Parts of the translation family: subwords, Sockeye's commands, and what they write."""
