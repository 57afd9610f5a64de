"""The five assets, in the order in which a paper passes through them. Each file is one asset and only orchestrates."""
