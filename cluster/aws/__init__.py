"""Amazon EC2: what the provider `aws` is made of."""
