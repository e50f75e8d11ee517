"""The system itself: phases, rules and records, free of Ray, drivers and network."""
