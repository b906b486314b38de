"""Parts of the translation families: subwords, Sockeye's commands and output, and `marian`'s training."""
