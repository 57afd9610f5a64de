"""The parts of Dagster that this project uses and that Dagster does not export: launchers and the configuration of instance
classes. Nothing else here imports a private module of Dagster, so an upgrade that moves one fails here, with a message."""

from importlib.metadata import version

try:
    from dagster._config.config_schema import UserConfigSchema
    from dagster._core.errors import DagsterUserCodeUnreachableError
    from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, WorkerStatus
    from dagster._serdes import ConfigurableClassData
except ImportError as error:
    raise ImportError(
        f"Dagster {version('dagster')} has moved what docstokg_assets needs ({error}). Install the tested version: "
        "`make setup`, or `pip install -r requirements.lock`. Webserver, daemon and runs start again after that."
    ) from error

__all__ = [
    "CheckRunHealthResult",
    "ConfigurableClassData",
    "DagsterUserCodeUnreachableError",
    "DefaultRunLauncher",
    "UserConfigSchema",
    "WorkerStatus",
]
