"""Language models: their architecture, work per phase, many devices, serving."""
