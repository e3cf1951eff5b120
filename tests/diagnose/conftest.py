"""Cards whose every case `test_public_style.py` runs are no tests of their own as well."""

collect_ignore_glob = ["blind*/*.toml", "public_style/*.toml"]
