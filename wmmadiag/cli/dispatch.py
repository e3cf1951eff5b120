"""From the words of the command line to the command that they name."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from wmmadiag import __version__
from wmmadiag.cli.arguments import Parser
from wmmadiag.cli.console import Console
from wmmadiag.cli.nvcc_words import ours
from wmmadiag.errors import ConfigurationError, did_you_mean

COMMANDS = {
    "check": "run kernels on the emulator and judge every element of their output",
    "run": "run a CUDA program with its own main, without a GPU, under all checks",
    "diagnose": "say what is broken, on which line, and try a change that mends it",
    "explain": "show where one element of the output comes from, and where it departs",
    "report": "show a run that `check --json` wrote, as a page, Markdown, SARIF, …",
    "compare": "say what changed between two such runs",
    "debug": "stop a kernel anywhere, look into its fragments and memory, and go back",
    "campaign": "try kernels over sizes, inputs and architectures, on this machine or on many",
    "dap": "let an editor debug kernels (Debug Adapter Protocol)",
    "replay": "repeat a check from the one file that `check --bundle` wrote",
    "probe": "put small questions to the toolchain, the chip, or a kernel",
    "init": "write a card for a kernel, from its signature and launches",
    "ptx": "show a compiled kernel's instructions under their source lines",
    "fragment": "draw which lane holds which element of a fragment, and its bank conflicts",
    "shapes": "list the shapes, types and layouts that an architecture's tensor cores have",
    "examples": "list or copy the kernels that come with wmmadiag",
    "bench": "time a card's kernel on a GPU, or the emulator itself",
    "completion": "write what a shell needs to complete commands and options",
    "doctor": "say what this machine has and what it lacks",
}

_DESCRIPTION = "Check and debug WMMA (tensor-core) CUDA kernels, with or without a GPU."
_EPILOG = """exit codes: 0 all passed, 1 a kernel is wrong, 2 usage or configuration, 3 could not decide

  wmmadiag check kernel.toml                              a kernel with a card
  wmmadiag check kernel.cu                                without one
  wmmadiag COMMAND --help                                 all about a command"""


def dispatch(argv: list[str], console: Console) -> int:
    """Run the command line; returns the exit code.

    Raises:
        WmmadiagError: whatever ends the command early.
    """
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    parser = Parser(
        prog="wmmadiag",
        description=f"{_DESCRIPTION}\n\ncommands:\n{listed}",
        epilog=_EPILOG,
        usage="wmmadiag [--version] [--help] COMMAND ...",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    command = next((word for word in argv if not word.startswith("-")), None)
    if command is None or argv[0] != command:
        try:
            args = parser.parse_all(argv)
        except SystemExit as end:  # argparse, after --help
            return int(end.code or 0)
        if args.version:
            console.print(_version())
            return 0
        console.note(parser.format_help())
        return 2
    if command not in COMMANDS:
        if Path(command).exists():
            hint = f"to check it: wmmadiag check {command}"
        else:
            hint = did_you_mean(command, COMMANDS, f"commands: {', '.join(COMMANDS)}")
        raise ConfigurationError(f"there is no command '{command}'", hint=hint)
    module = import_module(f"wmmadiag.cli.{command}")
    parser = Parser(prog=f"wmmadiag {command}", description=module.__doc__)
    module.add_arguments(parser)
    last = argv.index("--") if "--" in argv and getattr(module, "TAKES_ARGUMENTS_OF_OTHERS", False) else len(argv)
    words = argv[1:last]
    if getattr(module, "TAKES_WORDS_OF_NVCC", False):
        words, ignored = ours(words)
        if ignored:
            console.note(f"note: nvcc's alone, without a meaning here: {' '.join(ignored)}")
    try:
        args = parser.parse_all(words)
    except SystemExit as end:
        return int(end.code or 0)
    console.colour_choice = getattr(args, "color", "auto")
    console.quiet = getattr(args, "quiet", False)
    console.workflow = console.workflow or getattr(args, "github", False)
    args.words = argv[1:]
    _search_near(args, console)
    code: int = module.run(args, console)
    return code


def _search_near(args: argparse.Namespace, console: Console) -> None:
    """Search folders near a source, too, that alone have a header of its, and say so."""
    named = [getattr(args, name, ()) for name in ("path", "source", "paths", "sources")]
    paths = [path for one in named for path in ([one] if isinstance(one, str) else one)]
    for path in map(Path, paths if hasattr(args, "include") else ()):
        if path.suffix != ".cu" or not path.is_file():
            continue
        from wmmadiag.compile.near import near_folders

        for name, folder in near_folders(path, tuple(map(Path, args.include))):
            args.include = [*args.include, str(folder)]
            console.note(f"{path}: {name} was found under {folder}, which is searched as if -I {folder} were given")


def _version() -> str:
    from wmmadiag.compile.toolchain import nvrtc_version

    found = nvrtc_version()
    return f"wmmadiag {__version__} ({f'NVRTC {found}' if found else 'no NVRTC'})"
