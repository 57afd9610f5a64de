"""Where artifacts are kept. A store knows bytes and relative paths; what a file is called is decided by the domain."""

from resources.artifacts.file_system import FileSystemStore, PartFile, Stored, StoreError, StoreFull

__all__ = ["FileSystemStore", "PartFile", "StoreError", "StoreFull", "Stored"]
