"""Where the parts of the Parquet lake are kept: a folder, or a bucket that several machines share."""
