"""The configuration: its models, its hash, how it is displayed and explained, and the contact address that it must name."""

from docstokg_assets.config.contact import is_sandbox, require_contact
from docstokg_assets.config.models import ContentDownloadConfig, config_hash, load_config, resolvers_of

__all__ = ["ContentDownloadConfig", "config_hash", "is_sandbox", "load_config", "require_contact", "resolvers_of"]
