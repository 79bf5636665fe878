"""Files for hosts: differences only, and from host to host where that is shorter."""
