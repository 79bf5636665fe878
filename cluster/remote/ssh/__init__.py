"""SSH connections: options, authentication, OpenSSH's files."""
