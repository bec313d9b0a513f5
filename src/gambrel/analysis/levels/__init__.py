"""Traffic at each memory level: blocking inside an op, reuse between ops."""
