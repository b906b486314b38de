"""Methods that stop trainings early."""
