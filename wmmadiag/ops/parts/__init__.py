"""Mathematics and data that several operations share."""
