"""How well notes are found again and dialogues are summarised, measured on sets written by hand for this project."""
