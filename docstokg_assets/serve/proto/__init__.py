"""Generated from ingest.proto."""
