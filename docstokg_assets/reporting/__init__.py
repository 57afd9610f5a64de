"""Manifest, sinks, metrics, report, and the history of one work."""
