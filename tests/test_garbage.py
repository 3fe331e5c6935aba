"""The garbage collector rests, and is then as it was."""

from __future__ import annotations

import gc

import pytest

from dglite.garbage import no_collection


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_before(enabled: bool) -> None:
    before, frozen = gc.isenabled(), gc.get_freeze_count() > 0
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ImportError), no_collection():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() == enabled
        assert (gc.get_freeze_count() > 0) == frozen
    finally:
        (gc.enable if before else gc.disable)()
