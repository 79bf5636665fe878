"""Files of hosts: their trees, copies to many at once, and shared file systems."""
