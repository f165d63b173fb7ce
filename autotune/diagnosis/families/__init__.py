"""The signatures, by who writes them. See `autotune.diagnosis.catalogue` for their order."""
