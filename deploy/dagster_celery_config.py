"""Configuration of Celery workers. dagster-celery imports it by this name: deploy/ is on the PYTHONPATH of each worker."""

import os

broker_url = os.environ["CELERY_BROKER_URL"]
result_backend = os.environ["CELERY_RESULT_BACKEND"]
broker_connection_retry_on_startup = True  # workers may start before Redis does
task_track_started = True  # records which worker has taken a run
result_expires = 172_800  # seconds; longer than a run may take
worker_max_tasks_per_child = 1  # a new process per run, so that its memory is released
worker_disable_prefetch = True  # a waiting run stays in the queue, where any free worker can take it
