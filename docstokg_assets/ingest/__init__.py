"""Ingest requests: save the file behind a URL, on the engine, limits and catalog of all other downloads.

`records` has the request and the result, `statuses` the closed list of how a request ends, `service` the one way in for the
command line, HTTP, gRPC and Kafka.
"""
