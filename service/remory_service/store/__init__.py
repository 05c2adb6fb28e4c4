"""What is kept, in an SQLite file in the data folder or in a PostgreSQL database."""
