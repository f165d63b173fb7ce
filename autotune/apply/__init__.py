"""What a training script does with a saved configuration."""
