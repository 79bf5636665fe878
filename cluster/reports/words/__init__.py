"""The English about results: each module writes what one subject found, from its facts."""
