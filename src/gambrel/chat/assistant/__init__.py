"""A language model that talks about results: it only calls gambrel's tools, and is checked."""
