"""What a trial runs on: suites, tables with objectives and a clock, goals, targets."""
