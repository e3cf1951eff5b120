"""What a merge gate needs besides checks: results kept from run to run, and failures that are known."""
