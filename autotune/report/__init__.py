"""What a study found, as one document that a person shows to a colleague."""
