"""A model again as another runtime, number format or size needs it, from its workload alone."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from gambrel.capture import zoo
from gambrel.capture.request import Request
from gambrel.errors import UnknownNameError
from gambrel.llm.recipe import Recipe, recipe_of
from gambrel.workload import Workload


def variant(
    workload: Workload, *, precision: str | None, layers: str, sizes: Mapping[str, int]
) -> Workload:
    """The workload that the same question with these would have been answered with.

    Unchanged where it is no language model in closed form or from the zoo, nor a built-in
    pipeline, where ops were changed, and where a file gives its weights their formats and no other
    one is asked for: then it is built in that one, as if the file were converted.

    Args:
        workload: As it was built.
        precision: Number formats, as asked for; None takes the model's own.
        layers: Whose layers run, as `gambrel.runtimes.Runtime.layers` has it.
        sizes: By symbol; what the workload leaves open stays open.
    """
    recipe = recipe_of(workload)
    kept = recipe is not None and recipe.stored and not _converts(precision, workload)
    if recipe is not None and (recipe.edited or kept):
        return workload
    name, phase = workload.name, recipe.phase if recipe else None
    request = Request(
        phase=phase,
        sizes=sizes,
        precision=precision,
        layers=layers,
        keep_open=any(s.minimum != s.maximum for s in workload.symbols),
        ranges={s.name: (s.minimum, s.maximum) for s in workload.symbols if s.maximum is not None},
    )
    if recipe is not None and (recipe.stored or not _is_built_in(name, recipe)):
        return replace(_from_recipe(recipe, request), name=name)
    if recipe is None and not _is_unchanged(workload, sizes):
        return workload
    return _built_in(name, request)


def other_model(workload: Workload, name: str) -> Workload:
    """The built-in model that a name means, in the phase of a workload.

    Raises:
        UnknownNameError: No such model.
        InputError: It has no such phase.
    """
    recipe = recipe_of(workload)
    phase = recipe.phase if recipe else zoo.phase_of(workload.name)
    return _built_in(name, Request(phase=phase))


def edited(workload: Workload) -> Workload:
    """A workload whose ops or tensors were changed: it is not built again from its recipe."""
    recipe = recipe_of(workload)
    if recipe is None or recipe.edited:
        return workload
    return replace(workload, recipe=replace(recipe, edited=True).text())


def formats_of(workload: Workload) -> str | None:
    """The formats that a user named part by part; None for the model's own, or one for all."""
    recipe = recipe_of(workload)
    kept = recipe is not None and (recipe.stored or recipe.edited)
    own = recipe.spec.precisions().name if recipe and not kept else ""
    if workload.precisions == own:
        return None
    return recipe.asked or workload.precisions if recipe and not kept else workload.precisions


def _converts(precision: str | None, workload: Workload) -> bool:
    """Whether another format of the whole model is named, beside those of its parts."""
    if precision is None or precision == workload.precisions:
        return False
    return "=" not in precision.partition(",")[0]


def _built_in(name: str, request: Request) -> Workload:
    from gambrel.capture.resolve import from_zoo

    return from_zoo(name, request).workload


def _from_recipe(recipe: Recipe, request: Request) -> Workload:
    from gambrel.capture.closed_form import workload_of_spec

    return workload_of_spec(
        recipe.spec,
        phase=request.phase,
        sizes=request.sizes,
        precision=request.precision,
        keep_open=request.keep_open,
        ranges=request.ranges,
        layers=request.layers,
    )


def _is_built_in(name: str, recipe: Recipe) -> bool:
    """Whether a name means the model of a recipe."""
    from gambrel.llm.known import names, spec_of

    return name in names() and spec_of(name) == recipe.spec


def _is_unchanged(workload: Workload, sizes: Mapping[str, int]) -> bool:
    """Whether a name means this workload, op for op, and something would be built otherwise."""
    from gambrel.capture import pipelines
    from gambrel.llm.known import config_of

    name = workload.name
    if (pipeline := pipelines.find(name)) is not None:
        own = {s.name: s.default for s in workload.symbols if s.minimum == s.maximum}
        moved = any(sizes.get(n, value) != value for n, value in own.items())
        return moved and pipelines.load(pipeline, own, None) == workload
    if config_of(name.removesuffix(f"-{zoo.phase_of(name)}")) is None:
        return False
    try:
        return zoo.load(name) == workload
    except UnknownNameError:
        return False
