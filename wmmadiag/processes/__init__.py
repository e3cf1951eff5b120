"""Child processes that never outlive this one and never take it with them; deadlines, and the collector paused."""
