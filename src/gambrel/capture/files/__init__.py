"""Files that models come in, read without running anything that they hold.

``identify`` says what a file is, by its content; ``pt2`` reads exported programs, ``pickles`` and
``checkpoint`` pickles, ``safetensors`` headers. Only ``python_source`` runs code: the user's own.
"""
