"""The report of a run as one self-contained HTML file, and the pages of the leaderboard."""
