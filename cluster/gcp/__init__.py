"""Google Compute Engine: what the provider `gcp` is made of."""
