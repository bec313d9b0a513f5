"""Where a model's time goes: measured time per op, joined with its work and traffic."""
