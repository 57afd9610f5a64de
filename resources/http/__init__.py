"""The polite HTTP client, one concern a module: settings, canonical keys, guard, robots, retry decision, wire, exchange."""
