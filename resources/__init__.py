"""What touches the outside world: network, clocks, disk, databases. Knows nothing of the rules of scholarly works."""
