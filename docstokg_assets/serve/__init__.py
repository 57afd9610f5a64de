"""`content serve`: ingest requests over HTTP, gRPC and Kafka, and the page "Save a paper".

`access` decides who may call, `gate` applies it to HTTP, `api` and `pages` answer, `progress` follows requests for all who watch,
`server` starts and stops the parts. `ingest.service` validates and stores requests, whatever way they come in.
"""
