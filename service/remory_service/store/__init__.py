"""What is kept: one SQLite file in the data folder."""
