"""Launch, replace and clean up clusters."""
