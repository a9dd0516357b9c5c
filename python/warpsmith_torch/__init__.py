"""What Warpsmith asks of PyTorch: `dump` writes a module's graph, `oracle` answers for a module."""
