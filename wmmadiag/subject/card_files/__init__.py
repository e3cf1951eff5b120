"""Reading cards: TOML to `Card`, each mistake with its line."""
