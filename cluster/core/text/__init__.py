"""What people read and write: units, money, options."""
