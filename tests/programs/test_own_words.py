import pytest

from wmmadiag.programs.own_words import says_right, says_wrong


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("Test PASSED\n", "Test FAILED\n"),
        ("0.013 ms\nmax err 3.6e-07 -> OK\n", "0.013 ms\nmax err 7.1 -> MISMATCH\n"),
        ("Results match!\n", "Results do not match!\n"),
        ("Done\n", "Mismatch at 0: 0 vs 3.25\nDone\n"),
        ("0 mismatches\n", "4096 mismatches\n"),
        ("Errors: 0\n", "Errors: 4096\n"),
        ("sum 263032.0  scan mismatches 0\n", "sum 0.0  scan mismatches 131072\n"),
        ("max abs error: 3.5e-07\n", "max abs error: 7.25\n"),
        (
            "naive 1.0 ms max diff = 0\nfast 0.5 ms max diff = 2e-6\n",
            "naive 1 ms max diff = 8\nfast 1 ms max diff = 8\n",
        ),
        ("first: max error 1e-3\nsecond: max error 1e-6\n", "first: max error 1e-3\nsecond: max error 3\n"),
        ("\x1b[32m[PASS]\x1b[0m relative error 0.001\n", "\x1b[31m[FAIL]\x1b[0m relative error 1\n"),
        ("Max error: 1e-06 PASSED\n", "Max error: nan FAILED\n"),
    ],
)
def test_a_program_says_that_all_is_right_where_it_says_otherwise_without_its_kernels(text, without):
    assert says_right(text, without)
    assert not says_right(without, without) and not says_right(text, text) and not says_right(without, text)


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("c[0] = 3\n", "c[0] = 0\n"),  # numbers that nothing is said of
        ("Test PASSED\n", "Test PASSED\n"),
        ("kernel 1: PASSED\nkernel 2: FAILED\n", "kernel 1: FAILED\nkernel 2: FAILED\n"),
        ("first: max error 1e-7\nsecond: max error 0.01\n", "first: max error 3\nsecond: max error 3\n"),
        ("max error 0.001\n", "max error 3\n"),  # nobody says how large it may be
        ("mean error 1e-9\n", "mean error 3\n"),  # one element in a million
        ("Results do not match\n", "Results do not match: all zero\n"),
        ("Mismatch at 3: 0.5 vs 0.25\nok\n", "Mismatch at 0: 0 vs 1\n"),
        ("3 errors\nok so far\n", "4096 errors\n"),
        ("Error at index 5: 1 vs 2\nbenchmark ok\n", "Error at index 0: 1 vs 2\n"),
        ("incorrect result\n", ""),
        ("", ""),
    ],
)
def test_it_says_nothing_where_it_has_no_word_for_it_or_a_word_for_wrong(text, without):
    assert not says_right(text, without)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("FAILED\n", True), ("results are not correct\n", True), ("Error: results differ\n", True),
        ("7 mismatches\n", True), ("kernel 0 failed\n", True),
        ("0 failed, 3 passed\n", False), ("no mismatch found\n", False),
        ("max abs error 0.25\n", False), ("ok\n", False),
    ],
)  # fmt: skip
def test_a_word_for_wrong_is_no_count_of_none(text, wrong):
    assert says_wrong(text) is wrong
