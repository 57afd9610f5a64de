"""Where artifacts are kept. A store knows bytes and relative paths; what a file is called is decided by the domain."""

from resources.artifacts.file_system import FileSystemStore, PartFile
from resources.artifacts.store import ArtifactStore, Found, NameTaken, Stored, StoreError, StoreFull

__all__ = ["ArtifactStore", "FileSystemStore", "Found", "NameTaken", "PartFile", "StoreError", "StoreFull", "Stored"]
