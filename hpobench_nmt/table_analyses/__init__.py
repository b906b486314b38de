"""What there is to say of a table: analyses as text, frames and figures, and a look in the terminal."""
