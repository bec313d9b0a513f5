"""Problems in the layout of KernelBench: a file with `Model`, `get_inputs`, `get_init_inputs`."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any, Final

from gambrel.errors import CaptureError, FileFormatError, InputError, kind_and_line
from gambrel.fileio import read_text
from gambrel.workload import Workload

NAMES: Final = frozenset({"Model", "get_inputs", "get_init_inputs"})
#: No problem is longer.
_LONGEST: Final = 1 << 20


def is_problem(path: Path) -> bool:
    """Whether a file defines what a problem has; its code is read, not run."""
    try:
        tree = ast.parse(read_text(path, _LONGEST, "a problem"))
    except (SyntaxError, ValueError, InputError):
        return False
    defined = {
        node.name
        for node in tree.body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    }
    return defined >= NAMES


def problems_of(folder: Path) -> tuple[Path, ...]:
    """The problems below a folder, by name.

    Raises:
        FileFormatError: There is none.
    """
    if not folder.is_dir():
        raise FileFormatError(f"{folder} is no folder; give one with KernelBench problems.")
    found = tuple(path for path in sorted(folder.rglob("*.py")) if is_problem(path))
    if not found:
        raise FileFormatError(
            f"{folder}: no file there defines Model, get_inputs and get_init_inputs."
        )
    return found


def module_and_inputs(path: Path, device: str = "cpu") -> tuple[Any, tuple[Any, ...]]:
    """Runs a problem's code: its model, and inputs for it.

    Args:
        path: The problem.
        device: Where tensors are made; ``"meta"`` gives them no values and takes no memory.

    Raises:
        CaptureError: The code fails.
    """
    import torch

    from gambrel.capture.files.python_source import import_problem

    try:
        with torch.device(device), _placed(device), warnings.catch_warnings(action="ignore"):
            problem = import_problem(path)
            module = problem.Model(*problem.get_init_inputs())
            return module.eval(), tuple(problem.get_inputs())
    except CaptureError:
        raise
    except Exception as error:
        raise CaptureError(f"{path.name}: the problem fails: {kind_and_line(error)}") from error


def _placed(device: str) -> Any:
    """Puts on a device what the problem puts on a GPU by name."""
    import torch
    from torch.overrides import TorchFunctionMode

    def here(given: Any) -> Any:
        named = isinstance(given, (str, torch.device)) and str(given).partition(":")[0] == "cuda"
        return device if named else given

    class PlacedTensors(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if function is torch.Tensor.cuda:
                return args[0].to(device)
            given = {name: here(value) for name, value in (kwargs or {}).items()}
            return function(*map(here, args), **given)

    return PlacedTensors()


def workload_of_problem(path: Path) -> Workload:
    """The workload of a problem; nothing is computed, and its inputs take no memory."""
    from gambrel.capture.torch import capture

    try:
        module, inputs = module_and_inputs(path, "meta")
    except CaptureError:  # some constructors compute with values
        module, inputs = module_and_inputs(path, "cpu")
    with warnings.catch_warnings(action="ignore"):
        return capture(module, inputs, {}, name=path.stem)
