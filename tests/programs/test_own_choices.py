import pytest

from wmmadiag.programs.own_choices import chooses_wrong


@pytest.mark.parametrize(
    ("code", "output", "wrong"),
    [
        (r'printf("%s\n", ok ? "PASSED" : "FAILED");', "FAILED\n", True),
        (r'printf("%s\n", ok ? "PASSED" : "FAILED");', "PASSED\n", False),
        (r'std::cout << "max " << e << (e < 1e-3 ? " OK" : " MISMATCH") << "\n";', "max 0.5 MISMATCH\n", True),
        (r'if (bad) printf("%d mismatches\n", bad); else printf("All results match\n");', "17 mismatches\n", True),
        (r'if (bad) { printf("%s: FAIL\n", name); } else { printf("%s: PASS\n", name); }', "gemm: FAIL\n", True),
        (r'if (!f) printf("failed to open it\n"); else read(f);', "failed to open it\n", False),
        (r'if (!f) { printf("failed to open it\n"); } printf(ok ? "PASS" : "FAIL");', "failed to open it\n", False),
        (r'puts(bad ? "wrong" : "right or not");', "wrong\n", False),
    ],
)
def test_what_is_printed_of_two_words_is_a_verdict(code, output, wrong):
    assert chooses_wrong(output, f"int main() {{ {code} return 0; }}") is wrong
