"""Callbacks that log the utilization of a training run, for the trainers that people use."""
# ruff: noqa: ARG002 the trainers name the arguments

from __future__ import annotations

from typing import Any

from gambrel.api.accounting import Meter
from gambrel.errors import require


def trainer_callback(device: Any, *, seq: int, model: Any = None, **more: Any) -> Any:
    """A callback for the Hugging Face Trainer that logs tokens/s, MFU, HFU and the share of SOL.

    Args:
        device: As for `peak`.
        seq: Tokens of a sequence, as the data are packed.
        model: As for `flops_per_token`; None takes the configuration of the model that is trained.
        **more: ``precision``, ``recompute``, as for `Meter`.

    Raises:
        MissingExtraError: transformers is not installed.
    """
    require("transformers", "huggingface", "the callback for the Trainer")
    from transformers import TrainerCallback

    class MfuCallback(TrainerCallback):  # type: ignore[misc]  # transformers has no types
        """Logs utilization whenever the Trainer logs."""

        meter: Meter | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            trained = given["model"].config.to_dict() if model is None else model
            self.meter = Meter(trained, device, seq=seq, devices=args.world_size, **more)
            self.meter.lap()

        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            sequences = args.per_device_train_batch_size * args.gradient_accumulation_steps
            if self.meter is not None:
                self.meter.add(sequences * args.world_size * seq)

        def on_log(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            figures = self.meter.lap() if self.meter is not None else {}
            given.get("logs", {}).update(figures)
            if state.log_history:
                state.log_history[-1].update(figures)

    return MfuCallback()


def lightning_callback(device: Any, model: Any, *, seq: int, sequences: int, **more: Any) -> Any:
    """A callback for Lightning that logs tokens/s, MFU, HFU and the share of SOL.

    Args:
        device: As for `peak`.
        model: As for `flops_per_token`.
        seq: Tokens of a sequence.
        sequences: Of a step of one device.
        **more: ``precision``, ``recompute``, as for `Meter`.

    Raises:
        MissingExtraError: lightning is not installed.
    """
    require("lightning", "lightning", "the callback for Lightning")
    from lightning.pytorch import Callback

    class LightningMfu(Callback):  # type: ignore[misc]  # has no types here
        """Logs utilization with the steps of the trainer."""

        meter: Meter | None = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.meter = Meter(model, device, seq=seq, devices=trainer.world_size, **more)
            self.meter.lap()

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            if self.meter is None:
                return
            self.meter.add(sequences * seq * trainer.world_size)
            if (batch_idx + 1) % trainer.log_every_n_steps == 0:
                pl_module.log_dict(self.meter.lap())

    return LightningMfu()
