"""Models of time: fits over sizes, predictions, scaling efficiency, training steps."""
