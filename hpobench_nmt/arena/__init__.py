"""The frozen suite's records: archive, digest, submissions, leaderboard pages."""
