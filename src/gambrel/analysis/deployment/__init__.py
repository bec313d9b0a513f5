"""A deployment that exists: the command line or the file that starts it, as fields of a question.

Command lines of vLLM, SGLang and TensorRT-LLM are read as they stand in a terminal, a shell script,
a docker-compose file, a Kubernetes manifest, or an engine's own file of options.
"""

from __future__ import annotations

from typing import Any

from gambrel.analysis.deployment.files import command_lines
from gambrel.analysis.deployment.words import Deployment, fields_of_words

__all__ = ["Deployment", "read_deployment"]


def read_deployment(given: Any, label: str = "config") -> Deployment:
    """The deployment that a command line, a path or the content of a file describes.

    Args:
        given: One of these, or a `Deployment`.
        label: What the user calls it.

    Raises:
        InputError: No engine's command line, several of them, or a value that cannot be.
        FileFormatError: A file that cannot be read.
    """
    if isinstance(given, Deployment):
        return given
    words, replicas = command_lines(given, label)
    return fields_of_words(words, replicas, label)
