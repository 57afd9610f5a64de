"""The Parquet lake: writer, reader, views, export."""
