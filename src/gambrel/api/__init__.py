"""The public functions: each parses a question, calls one function and returns its result."""
