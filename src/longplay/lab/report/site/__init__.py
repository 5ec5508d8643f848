"""Numbers -> pages: report and leaderboard."""
