"""Operators on order between threads and on declarations: what each must yield, and a look-alike that it must not."""

from __future__ import annotations

from changed_texts import each, made, yields
from operator_bodies import ASYNC, DP4A, HALVES, SHARED

YIELDS = [
    (
        "declared_elsewhere",
        "float v = 0.0f; for (int i = 0; i < n; ++i) { if (i < m) v = a[i]; out[i] = v; }"
        " { float v = b[0]; out[n] = v; }",
        "{ float v = 0.0f; if (i < m)",
    ),
    ("fragment", "rows_t f; out[0] = f.x[0];", "columns_t f;"),
    (
        "barrier_more",
        f"{SHARED} s[t] = a[t]; if (t == 0) atomicAdd(out, 1.0f);",
        "s[t] = a[t]; __threadfence(); __syncthreads();",
    ),
    ("barrier_more", f"{SHARED} s[t] = a[t]; out[t] = s[63 - t];", "s[t] = a[t]; __syncthreads(); out"),
    ("barrier_more", f"{SHARED} if (t < 32) {{ s[t] = a[t]; out[t] = s[31 - t]; }}", "s[t] = a[t]; __syncwarp(); out"),
    ("barrier_other", f"{SHARED} s[t] = a[t]; __syncwarp(); out[t] = s[63 - t];", "s[t] = a[t]; __syncthreads(); out"),
    ("barrier_other", f"{SHARED} s[t] = a[t]; __syncthreads(); out[t] = s[t];", "s[t] = a[t]; out[t]"),
    (
        "wait_more",
        "commit(); WAIT(1); __syncthreads(); out[0] = a[0]; __syncthreads();",
        "out[0] = a[0]; WAIT(0); __syncthreads();",
    ),
    (
        "fragment",
        "wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> f; f.x[0] = a[0];",
        "half, wmma::col_major> f;",
    ),
    (
        "fragment",
        "wmma::fragment<wmma::accumulator, 16, 16, 16, half> f; f.x[0] = a[0];",
        "accumulator, 16, 16, 16, float> f;",
    ),
    ("initial", "float x; for (int i = 0; i < n; ++i) x += a[i]; out[0] = x;", "float x = 0;"),
    (
        "initial",
        "wmma::fragment<wmma::accumulator, 16, 16, 16, float> f; wmma::mma_sync(f, f, f, f);",
        "> f; wmma::fill_fragment(f, 0.0f);",
    ),
    ("storage", "float x[64]; x[threadIdx.x] = a[0]; out[0] = x[0];", "__shared__ __align__(32) float x[64];"),
    ("storage", "__shared__ __align__(4) float x[64]; x[threadIdx.x] = a[0]; out[0] = x[0];", "__align__(16)"),
    (
        "declared_elsewhere",
        "float x = 0; for (int i = 0; i < n; ++i) { x += a[i]; out[i] = x; }",
        "{ float x = 0; x += a[i];",
    ),
    (
        "declared_elsewhere",
        "float x = 0; float y = 1; for (int i = 0; i < n; ++i) { x += a[i]; y *= a[i]; out[i] = x + y; }",
        "{ float x = 0; float y = 1; x += a[i];",
    ),
    (
        "declared_elsewhere",
        "for (int i = 0; i < n; ++i) { float x = 0; x += a[i]; out[i] = x; }",
        "float x = 0; for (int i",
    ),
    ("cast", "out[0] = *((float*)a + m);", "*(float*)(a + m)"),
    ("storage", "int8_t w = (int8_t)m; out[0] = w;", "uint8_t w"),
    ("storage", "narrow_t w = (narrow_t)m; out[0] = w;", "typedef signed char narrow_t"),
    ("widened", HALVES, "__shared__ float s[256]; wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;"),
    ("widened", HALVES, "wmma::fill_fragment(f, 0.0f);"),
    ("widened", HALVES, "out[0] = s[m];"),
    ("assembly", "unsigned r[4]; load(r, 0); out[0] = r[0];", "m8n8.x4.trans.shared.b16"),
    ("assembly", DP4A, "dp4a.s32.s32 %0"),
    ("assembly", DP4A, "dp4a.u32.s32 %0"),
]

NEVER = [
    ("declared_elsewhere", "float v = 0.0f; for (int i = 0; i < n; ++i) { v += a[i]; } out[0] = v;", "++i) { float v"),
    ("declared_elsewhere", "const float v = a[m]; for (int i = 0; i < n; ++i) { out[i] = v; }", "++i) { const float v"),
    (
        "declared_elsewhere",  # the loop's own head hangs on it
        "bool more = true; for (int i = 0; more; ++i) { out[i] = a[i]; more = i < n; }",
        "{ bool more = true; out",
    ),
    ("fragment", "rows_t f; out[0] = f.x[0];", "right_t f"),  # of another use as well
    ("barrier_more", f"{SHARED} s[t] = a[t]; out[t] = s[t ^ 1];", "__threadfence(); __syncthreads();"),
    ("assembly", DP4A, "dp4a.u32.u8"),  # of another kind
    (
        "barrier_more",
        f"{SHARED} if (t < 32) {{ s[t] = a[t]; out[t] = s[31 - t]; }}",
        "s[t] = a[t]; __syncthreads(); out",
    ),
    ("barrier_more", "float x = m; float y = n; float z = x * y; out[0] = z;", "float y = n; __syncthreads(); float z"),
    ("wait_more", f"{SHARED} s[t] = a[t]; __syncthreads(); out[t] = s[t];", "WAIT(0);"),
    ("storage", "const float x[2] = {1, 2}; out[0] = x[m];", "__shared__ __align__(32) const float x"),
    ("widened", HALVES, "__shared__ float t[8]"),  # not joined to the accumulator
    ("initial", "__shared__ float x[64]; out[0] = x[0];", "x[64] = {}"),
    ("cast", "out[0] = (float)m;", "out[0] = m;"),
]


@each(YIELDS)
def test_order_or_declaration_operator_yields(operator: str, body: str, wanted: str) -> None:
    assert yields(body, operator, wanted, ASYNC)


@each(NEVER)
def test_order_or_declaration_operator_does_not_yield(operator: str, body: str, wanted: str) -> None:
    assert not yields(body, operator, wanted, ASYNC)


def test_an_insertion_is_no_edit_of_what_stands_there() -> None:
    for change, _ in made(f"{SHARED} s[t] = a[t]; out[t] = s[63 - t];", "barrier_more"):
        assert change.kind == "insertion" and all(edit.start == edit.end for edit in change.edits)


def test_a_barrier_is_known_by_what_its_function_does() -> None:
    head = ASYNC + '__device__ void meet() { asm volatile("bar.sync 0;"); }\n'
    assert yields(f"{SHARED} s[t] = a[t]; meet(); out[t] = s[t];", "barrier_other", "s[t] = a[t]; out[t]", head)
    assert not yields(f"{SHARED} s[t] = a[t]; copy4(out, a); out[t] = s[t];", "barrier_other", "s[t] = a[t]; out[t]")


def test_a_wait_that_nothing_calls_is_put_in_where_copies_are_made() -> None:
    copy = 'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(t * 4), "l"(a + t));'
    body, read = f"{SHARED} {copy} __syncthreads(); out[t] = s[t];", "__syncthreads(); out[t]"
    helpers = {
        '__device__ void landed() { asm volatile("cp.async.wait_all;"); }\n': "landed();",
        "template <int N> __device__ void landed() { __pipeline_wait_prior(N); }\n": "landed<0>();",
        '#define LANDED(n) asm volatile("cp.async.wait_group %0;" ::"n"(n))\n': "LANDED(0);",
        "": 'asm volatile("cp.async.wait_all;" ::: "memory");',
    }
    for head, wanted in helpers.items():
        assert yields(body, "wait_more", f"{wanted} {read}", head)
        assert not yields(body.replace(copy, "s[t] = a[t];"), "wait_more", f"{wanted} {read}", head)
    waits = f"{SHARED} {copy} LANDED(0); {read} = s[t];"
    head = next(one for one in helpers if "LANDED" in one)
    assert not yields(waits, "wait_more", "cp.async.wait_all", head)  # it has what waits


def test_an_arrival_that_nothing_calls_is_at_what_others_wait_for() -> None:
    head = "".join(
        f'__device__ void {name}(int id) {{ asm volatile("bar.{name} %0, 64;" ::"r"(id)); }}\n'
        for name in ("sync", "arrive")
    ).replace("void sync", "void meet")
    body = f"{SHARED} s[t] = a[t]; {{ int id = m; if (t < 32) {{ meet(id + 1); out[t] = s[t + 32]; }} }} out[0] = s[0];"
    assert yields(body, "wait_more", "arrive(id + 1); meet(id + 1);", head)
    assert not yields(body, "wait_more", "} arrive(id + 1); out[0]", head)  # where it has no such name
    other = f"{body} arrive(5); meet(5);"  # it is called, and somebody waits where nobody arrives
    assert yields(other, "wait_more", "arrive(id + 1); meet(id + 1);", head)
    assert not yields(other.replace("meet(id + 1); ", ""), "wait_more", "arrive(id + 1);", head)  # nobody waits there


def test_a_type_is_as_wide_as_what_it_is_given_as_it_is() -> None:
    head = "__device__ short held(short v) { return (short)(v > 32767 ? 32767 : v); }\n"
    assert yields("long long x = m; out[0] = held(x * n >> 2);", "wide_enough", "held(long long v)", head)
    assert yields("short x = m; x += n; out[0] = x;", "wide_enough", "int x = m;")
    assert yields("out[0] = kept(m);", "wide_enough", "int kept(int v)", "__device__ short kept(int v) { return v; }\n")
    for body in (
        "long long x = m; out[0] = held((short)(x * n));",
        "int x = threadIdx.x; x += 2; float y = x; out[0] = y;",
    ):
        assert made(body, "wide_enough", head) == []
