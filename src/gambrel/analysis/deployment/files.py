"""Where command lines of serving engines stand: terminals, scripts, manifests, option files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final

from gambrel.analysis.deployment.engine import words_of_engine
from gambrel.analysis.deployment.words import engine_of, separated
from gambrel.errors import FileFormatError, InputError, require, shown
from gambrel.fileio import check_name, path_of, read_text

_MOST_BYTES: Final = 1_000_000
#: Nodes of a manifest that are looked at: aliases can make a small file endless.
_MOST_NODES: Final = 50_000
_YAML: Final = (".yaml", ".yml", ".json")
_EXAMPLE: Final = "'vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2'"


def command_lines(given: Any, label: str) -> tuple[list[str], int]:
    """The words that start an engine, and how often they run.

    Args:
        given: A command line, a path, or what a file of options holds.
        label: What the user calls it.

    Raises:
        InputError: None, or several that differ.
        FileFormatError: A file that cannot be read.
    """
    if isinstance(given, Mapping):
        several, where = list(_of_tree(given)), "this mapping"
    elif isinstance(given, (str, PathLike)):
        several, where = _of_text(given, label)
    else:
        raise InputError(f"{label}: {shown(given)} is neither a command line nor a file.")
    different = [one for i, one in enumerate(several) if one not in several[:i]]
    if not different:
        raise InputError(
            f"{label}: {where} starts no vLLM, SGLang or TensorRT-LLM; give for example {_EXAMPLE}."
        )
    if len(different) > 1:
        named = "; ".join(shlex.join(words)[:60] for words, _ in different[:3])
        raise InputError(f"{label}: {where} starts {len(different)} engines, give one: {named}.")
    return different[0]


def _of_text(given: Any, label: str) -> tuple[list[tuple[list[str], int]], str]:
    text = str(given)
    path = Path(text)
    if len(text) < 4096 and "\n" not in text and (path.suffix or "/" in text) and (
        " " not in text or path.is_file()
    ):  # fmt: skip
        path = path_of(given, label)
        check_name(path)
        content = read_text(path, _MOST_BYTES, "a file of a deployment", f"Or give {_EXAMPLE}.")
        return list(_of_file(path, content)), str(path)
    return list(_of_script(text)), shown(text[:80])


def _of_file(path: Path, content: str) -> Iterator[tuple[list[str], int]]:
    if path.suffix.lower() not in _YAML:
        yield from _of_script(content)
        return
    for document in _documents(path, content):
        engine = words_of_engine(document, path)
        if engine is not None:
            yield engine, 1
        else:
            yield from _of_tree(document)


def _documents(path: Path, content: str) -> list[Any]:
    if content.lstrip().startswith("{"):
        try:
            return [json.loads(content)]
        except (ValueError, RecursionError):
            pass  # YAML's own way of writing a mapping
    require("yaml", "yaml", f"{path.name}: a file in YAML")
    import yaml

    try:
        return list(yaml.safe_load_all(content))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        first = " ".join(str(error).split())[:160]
        raise FileFormatError(f"{path}: not YAML: {first}.") from None


def _of_script(text: str) -> Iterator[tuple[list[str], int]]:
    """Every command of a shell script that starts an engine."""
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            if "vllm" in line or "sglang" in line or "trtllm" in line:
                raise InputError(f"not a command line: {error}: {shown(line[:80])}.") from None
            continue
        for one in separated(words):
            if engine_of(one) is not None:
                yield one, 1
            for word in one:
                if " " in word and engine_of(word.split()) is not None:  # bash -c "..."
                    yield from _of_script(word)


def _of_tree(tree: Any) -> Iterator[tuple[list[str], int]]:
    """Commands of all containers of a manifest; else the options of an engine's own file."""
    several = list(_containers(tree, 1, [_MOST_NODES]))
    if several:
        yield from several
    elif isinstance(tree, Mapping):
        options = [(str(k).replace("_", "-"), v) for k, v in tree.items()]
        start = {"model": "vllm serve", "model-path": "python -m sglang.launch_server"}
        engine = next((start[k] for k, _ in options if k in start), None)
        if engine:
            words = [word for key, value in options for word in _option(key, value)]
            yield [*engine.split(), *words], 1


def _option(key: str, value: Any) -> list[str]:
    if value is False or value is None:
        return []
    if value is True:
        return [f"--{key}"]
    return [f"--{key}", json.dumps(value) if isinstance(value, (Mapping, list)) else str(value)]


def _containers(tree: Any, replicas: int, left: list[int]) -> Iterator[tuple[list[str], int]]:
    left[0] -= 1
    if left[0] < 0:
        raise InputError(f"a deployment of more than {_MOST_NODES:,} entries is not read.")
    if isinstance(tree, Mapping):
        for own in (tree, tree.get("deploy")):
            count = own.get("replicas") if isinstance(own, Mapping) else None
            replicas = count if isinstance(count, int) and count > 0 else replicas
        words = _words_of(tree)
        scripts = [word for word in words if " " in word]  # bash -c "vllm serve ..."
        commands = [one for script in scripts for one, _ in _of_script(script)]
        if not commands and engine_of(words) is not None:
            commands = [words]
        yield from ((one, replicas) for one in commands)
        children = list(tree.values())
    else:
        children = tree if isinstance(tree, list) else []
    for child in children:
        if isinstance(child, (Mapping, list)):
            yield from _containers(child, replicas, left)


def _words_of(container: Mapping[str, Any]) -> list[str]:
    """Command and arguments of a container, with what its image starts by itself."""
    words: list[str] = []
    for key in ("entrypoint", "command", "args"):
        value = container.get(key)
        if isinstance(value, str):
            words += shlex.split(value.replace("\\\n", " "))
        elif isinstance(value, list):
            words += [str(word) for word in value if not isinstance(word, (Mapping, list))]
    image = str(container.get("image") or "").rpartition("/")[2]
    starts = engine_of(words) is not None or any(" " in word for word in words)
    if words and "vllm" in image and not starts:  # what the entry point of its images runs
        words = ["vllm", "serve", *words]
    return words
