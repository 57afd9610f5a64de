"""Who may know a copy of a work: a registry, and one file a provider. Importing this package loads no resolver."""
