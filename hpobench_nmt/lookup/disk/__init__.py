"""Tables on disk: folders with a datasheet, and the files beside it."""
