"""Where artifacts are kept. A store knows bytes and relative paths; the domain decides what a file is called."""
