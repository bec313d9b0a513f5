"""Questions in words: parsed offline, answered from an analysis."""
