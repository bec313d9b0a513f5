"""Many points past one core: partitions, filters, fronts, files and who computes them.

Nothing here knows models or devices. A `gambrel.engine.work.PointWork` says how many points there
are and computes any range of them; `gambrel.engine.run.run` computes them all, here or on other
processes and machines, and writes each partition whole.
"""
