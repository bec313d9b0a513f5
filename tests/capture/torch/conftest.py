"""Libraries of models, imported once with their own import-time warnings let through."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("torch")


@pytest.fixture(scope="session")
def torchvision():
    from gambrel.capture.torch import ensure_torchvision

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not ensure_torchvision():
            pytest.skip("torchvision is not installed")
        import torchvision

    return torchvision


@pytest.fixture(scope="session")
def transformers(torchvision):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("transformers")
        module.logging.set_verbosity_error()
    return module
