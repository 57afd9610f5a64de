from docstokg_assets_tests.resources.catalog.conftest import location  # noqa: F401
