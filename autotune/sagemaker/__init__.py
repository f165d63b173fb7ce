"""A study as one training job of Amazon SageMaker, seen from outside."""
