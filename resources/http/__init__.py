"""The polite HTTP client, one concern a module: settings, keys, guard, robots, retry decision, exchange, codings, wire."""
