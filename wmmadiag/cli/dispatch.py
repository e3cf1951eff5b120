"""From the words of the command line to the command that they name."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from wmmadiag import __version__
from wmmadiag.cli.arguments import Parser
from wmmadiag.cli.console import Console
from wmmadiag.errors import ConfigurationError, did_you_mean

# Options as they are written for nvcc: to ours, so that the line that compiles a program elsewhere runs it here.
#
# Sources: CUDA Compiler Driver NVCC, "NVCC Command Options".


_NOTHING_OF = """-o --output-file -Xptxas --ptxas-options -Xcudafe -ccbin --compiler-bindir -cudart --cudart -x -O
--optimize -maxrregcount --maxrregcount -t --threads -rdc --relocatable-device-code -diag-suppress --diag-suppress -m
--machine -code --gpu-code"""
_VALUED = {
    "-arch": "arch", "--gpu-architecture": "arch", "-gencode": "arch", "--generate-code": "arch",
    "-std": "std", "-Xcompiler": "host", "--compiler-options": "host", "-Xlinker": "host", "-isystem": "include",
    "-default-stream": "stream", "--default-stream": "stream",
    "-L": "folder", "-l": "library", **dict.fromkeys(_NOTHING_OF.split(), "nothing"),
}  # fmt: skip
"""Option that has a value → what is made of it; "nothing": it has no meaning here."""
_ATTACHED = re.compile(r"(-O|-l|-L|-m)([^=\s].*)")
_WITHOUT = """-g -G --debug --device-debug -lineinfo --generate-line-info -w --disable-warnings -pg -res-usage
--resource-usage -expt-relaxed-constexpr --expt-relaxed-constexpr -extended-lambda --extended-lambda
-expt-extended-lambda --expt-extended-lambda -link --link -restrict --restrict -dlto -Wno-deprecated-gpu-targets"""
_BARE = frozenset(_WITHOUT.split())
"""Options without a value that have no meaning here: what they allow is allowed, what they tell is told, or no code is
made that they change."""
_FAST = ("-use_fast_math", "--use_fast_math")
_LIBRARIES = """cublas cublasLt cublas_static cublasLt_static curand cudart cudart_static
cudadevrt cuda nvrtc nvToolsExt nvJitLink culibos m c stdc++ gomp pthread rt dl"""
_HAD = frozenset(_LIBRARIES.split())
"""Libraries that are there without being asked for."""
_OLDEST = 75


def ours(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of a command line with nvcc's options as ours, and those of nvcc's that have no meaning here."""
    made, ignored, arches = list[str](), list[str](), list[str]()
    rest = iter(words)
    for word in rest:
        name, sign, value = word.partition("=")
        attached = _ATTACHED.fullmatch(word)
        if word in _FAST:
            made.append("--use-fast-math")
        elif word in _BARE:
            ignored.append(word)
        elif word in _VALUED or (sign and name in _VALUED):
            value = value if sign else next(rest, "")
            made += _of_value(_VALUED[name], value, arches)
            ignored += [word if sign else f"{word} {value}"] * (_VALUED[name] == "nothing")
        elif attached:
            made += _of_value(_VALUED[attached[1]], attached[2], arches)
            ignored += [word] * (_VALUED[attached[1]] == "nothing")
        else:
            made.append(word)
    if arches:
        newest = max(map(_number, arches))
        made += ["--arch", f"sm_{max(newest, _OLDEST)}"]
        ignored += [f"sm_{newest} (sm_{_OLDEST} is the oldest here, and runs it)"] * (newest < _OLDEST)
    return made, ignored


def _of_value(kind: str, value: str, arches: list[str]) -> Iterator[str]:
    if kind == "arch":
        arches += [f"sm_{one}" for one in re.findall(r"\b(?:sm|compute|lto)_(\d+)[af]?\b", value)]
    elif kind == "std":
        yield f"--std={value}"
    elif kind == "include":
        yield f"-I{value}"
    elif kind == "host":
        yield from (f"-X={one}" for one in value.split(","))
    elif kind == "stream":
        yield f"--default-stream={value}"
    elif kind == "folder":
        yield f"-X=-L{value}"
    elif kind == "library" and value not in _HAD:
        yield f"-X=-l{value}"


def _number(arch: str) -> int:
    return int(arch.removeprefix("sm_"))


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
