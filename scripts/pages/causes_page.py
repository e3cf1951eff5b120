"""docs/causes.md, made of the names' table and the operators."""

from __future__ import annotations

from wmmadiag.diagnose.effort import EFFORTS
from wmmadiag.diagnose.names import FAULT, NAMES, REFUSED, UNKNOWN
from wmmadiag.diagnose.operators import copied
from wmmadiag.diagnose.operators.registry import all_operators

_HEAD = """# What a diagnosis can tell, and how it proves it

Made by `python scripts/pages`.

A diagnosis tries changes. Operators that know nothing of what a kernel computes yield thousands of small changes of its
source; each is run on the failing case, many of them in one program with a switch that the emulator turns. A change
with which every element is right is then held to every case, with all checks, on other values and, where nobody said
which inputs the kernel is for, on inputs that are hard for the operation.

The likeliest are tried first: by what an operator's changes of such a place were worth before, by what the failing run
marks, and by how natural a change makes the text, to a language model of right kernels and of the source itself.

Changes are of the source and the headers beside it. Where none of these mends the kernel, headers that only an include
path leads to are looked at as well, those of which the compiler made the most of it; where it made most of a kernel of
such headers, less is tried before that.

- **proven**: with this change, and nothing else, everything that ran is right; no change elsewhere does as well, what
  it puts in belongs to one place alone, and with it the kernel does no more than it must. Or the run itself is the
  proof: what the compiler, ptxas or the launch refuses.
- **likely**: a change mends everything, but something was assumed that nobody said; or a change at another place mends
  it as well, and both places are named; or it alters what the kernel reads and writes in a case that was right; or it
  is another launch, where the kernel could be written for the one that there is; or several pieces of an address in
  shared memory, whose other end, who writes it or who reads it, could be meant as well; or a constant that three places
  or more are written for (with one stage, no buffer is the wrong one); or one of two bugs; or the changed kernel is
  wrong with one size of another case in place of its own; or a warp still stores what no thread of its block reads; or
  a statement put in mends at other places as well; or the changed kernel reads nothing new and what it read before more
  often; or a line goes on into an array that it kept out of before; or shared memory is filled from the same elements
  in another order, which who reads them may have wrong; or it only says which register is which; or it does the same on
  several lines, which agree with each other as they stand; or it fills a place, of which thousands were tried; or the
  kernel overflows on large inputs with it, and as it stands does not; or blocks no longer share their work with it; or
  more of what is stored in shared memory is stored again before anybody reads it; or what it orders is ordered in
  another function as well; or its line stands alone at its end of shared memory, where several lines stand at the
  other, which could all be wrong alike; or changes beside it were left out, as each takes a compilation of its own; or
  most of the kernel is of headers of an include path, in which nothing was tried.
- **undecided**: nothing that was tried mends it. The lines that what was seen speaks of most are named; what was seen,
  what was ruled out and by what, and changes that mend a part are listed.

Of a source alone, kernels that a host function launches one after the other are judged by what they compute together:
a trial is all these launches, over one memory, and changes of each kernel are tried. Where nobody said in which types a
kernel computes, a change that brings everything near tells.

Before anything is the answer, what was not tried of the lines beside it is, changes of the second round among it: where
its values are made, and where they are used; what it calls; what does the same elsewhere; what it adds to a value,
added where that is made; of what puts accesses in order, where these stand. A statement put in does not count against a
change of one that stands there, which is simpler.

Places are filled as well: an expression becomes a hole for which whatever can be named there may stand, alone or two of
it under an operator: names, numbers, parts of the expression, what stands elsewhere, what is assigned to; of a
condition any comparison, alone, with it or beside it; of a lane's number other bits of it. What stands at the same
place of several statements of a block, or of two that do the same before a loop and in it, or differs in numbers and
members alone, is filled alike at once as well: a mistake that was made at each. Some forty holes are in one program,
and what fills which one is read when it runs: thousands of fillings for one compilation. The likeliest places come
after the likeliest changes, the others where nothing mends.

Where no change mends anything alone, two are made at once, any two of a program's: behind the second round those by
which one operator does the same at two places, to whatever names stand there, or undoes at one what it does at the
other, near ones before far ones; behind those the likeliest.

A change that takes the last reading of a variable away was seldom meant; what reads one that nothing reads often was.

A change with which the kernel overflows on large inputs, where it does not as it stands, may only hide what is wrong:
an online softmax without its running maximum needs none of its rescaling. So may one that is wrong with one size of
another case in place of its own, or with which blocks no longer share their work: one does it for all, or each does all
of it. The search goes on behind it, first on the lines that the kernel runs and with this change does not; any other
change that mends everything comes first.

A finding of a check (a race, an access outside) is always reported. It is the cause of wrong numbers only if mending it
alone makes them right. Where every number is right and only a check complains, what the engine's checks find is counted
for each change of a program; those with which it is less are run with all checks.

Of changes that mend equally, one that alters far fewer of the kernel's accesses than another is the answer: without its
padding, a kernel with one wrong pitch is right as well. Sizes that nobody asked for tell the others apart, where the
changed kernels differ on them. A statement put in is named at the last place where it still mends.
Barriers put in anywhere between two accesses that nothing orders are one answer: the one that waits least often, with a
loop's other end beside it. One that is moved there from elsewhere is put in there as well, and is no rival.

Trials tell where to look next. What is changed where nothing is wrong seldom makes wrong elements right: once a change
mends a good part of the block that was looked at and breaks less, the others of its line come forward.

Where the kernel dies of an access outside of all arrays, or of one that is not aligned, trials let such accesses pass:
what is read there is zero, or what lies there, what is written there is lost, and all are counted. A change with
which there are fewer is better, as one with fewer wrong elements is; it is right only where there are none.

Where no change mends everything, one that mends a case, or makes wrong elements right and hardly any wrong, is kept,
and the search goes on from there, with a way back: early from what takes a quarter of what is wrong away and spoils
nothing, from the others once all changes were tried. Where every number is right and a check complains, a change that
takes findings away and adds none is kept in the same way. Then two changes are made at once. The launch is a place
like any other; fewer threads are the answer only where no change of the source is.

What is said of a cause is the first access that differs between the kernel and the mended kernel, side by side on the
same inputs. Its name follows from the role of what was changed.

| name | what is wrong | how it comes about |
|---|---|---|
"""


def page() -> str:
    """The page's text."""
    rows = [f"| `{one.id}` | {one.title} | {one.help} |" for one in (*NAMES, REFUSED, FAULT, UNKNOWN)]
    lines = [_HEAD + "\n".join(rows), "", "## What is changed", "", "| operator | what it does |", "|---|---|"]
    lines += _operators(wider=False)
    lines += [
        "",
        "Where none of these changes mends anything, those that are less likely and a great deal more follow:",
        "",
        "| operator | what it does |",
        "|---|---|",
        *_operators(wider=True),
        "",
        "## How much is tried",
        "",
        "`--effort` counts work, never time: the answer is the same on every machine.",
        "",
        "| effort | changes | second round | pairs of changes | warp instructions of trials | bugs in one source |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.name} | {one.changes:,} | {one.wider:,} | {one.pairs:,} | {one.instructions:,} | {one.bugs} |"
        for one in EFFORTS.values()
    ]
    return "\n".join(lines) + "\n"


def _operators(*, wider: bool) -> list[str]:
    rows = []
    for name, run in all_operators(wider).items():
        words = " ".join((run.__doc__ or "").split("\n\n")[0].split())
        rows.append(f"| {name} | {words.replace('|', chr(92) + '|')} |")
    if not wider:
        rows.append(f"| {copied.NAME} | {(copied.__doc__ or '').strip()} |")
    return rows
