"""How fast each host may be asked: policies, the groups that share a limit, and the stores that count for all processes."""
