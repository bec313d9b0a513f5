"""Gates: did a figure get worse than its baseline by more than chance and tolerance allow?"""
