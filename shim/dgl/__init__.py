"""``dgl`` is dglite: this module puts the alias of ``dglite.compat`` in its own place when it is imported."""

import importlib
import importlib.metadata
import sys
from pathlib import Path


def _refuse_another_dgl() -> None:
    """Raise ImportError where DGL itself is installed, beside this package or in its folder."""
    folder = Path(__file__).parent
    libraries = sorted(folder.glob("*dgl.so")) + sorted(folder.glob("*dgl.d*"))
    files = {file for found in importlib.metadata.distributions(name="dgl") for file in found.files or ()}
    others = [str(file.locate()) for file in files if file.name in ("libdgl.so", "libdgl.dylib", "dgl.dll")]
    places = [str(library) for library in libraries] + others
    if places:
        raise ImportError(
            f"two packages are named dgl here: dglite's, and DGL itself with {places[0]}; pip uninstall dgl until none "
            "is left, then install the one that you want"
        )


if __name__ == "dgl":  # not where a tool reads the file
    _refuse_another_dgl()
    del sys.modules["dgl"]
    from dglite.compat import install

    install()
    importlib.import_module("dgl")
