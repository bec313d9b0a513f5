"""The judge: how far a measured kernel, layer or model is from the speed of light, and why."""
