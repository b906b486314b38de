"""What the fuzz tests share: mutations, the valid world, and the watched sandbox."""
