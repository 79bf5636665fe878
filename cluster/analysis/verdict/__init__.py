"""Is a run as it should be, and if not, why?"""
