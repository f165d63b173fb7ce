"""Runs a user's script in a rank as torchrun would, and measures it from outside."""
