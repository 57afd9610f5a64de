"""The search for copies, the download, scheduling and recording."""
