"""What a failing case shows of itself, before any hypothesis is asked."""
