"""What all clouds share; nothing here depends on a particular cloud."""
