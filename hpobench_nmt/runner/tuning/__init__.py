"""Live tuning: an HPO method chooses which configuration is trained next."""
