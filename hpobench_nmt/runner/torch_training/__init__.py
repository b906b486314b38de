"""What trainings with torch share: the loop of updates and checks, its clock, precision, and saved states."""
