"""Trials on a Ray cluster. Imported only where it is asked for: Ray is the extra `ray`."""
