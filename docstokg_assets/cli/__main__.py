"""`python -m docstokg_assets.cli` is the same program as `content`."""

from docstokg_assets.cli.main import main

if __name__ == "__main__":
    main()
