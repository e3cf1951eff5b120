"""The command line: one module per subcommand, each with `HELP`, `add_arguments(parser)` and `run(args, console)`."""
