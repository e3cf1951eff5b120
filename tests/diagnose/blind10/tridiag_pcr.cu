// batched tridiagonal solver, parallel cyclic reduction
//   a[i] x[i-1] + b[i] x[i] + c[i] x[i+1] = d[i],   i = 0 .. n-1,  a[0] and c[n-1] are ignored
// one system per block, one equation per thread; after ceil(log2 n) steps all equations stand alone
// systems are interleaved (element i of system s at i * batch + s), as ADI sweeps leave them

template <typename real>
struct Equation { real a, b, c, d; };

// eliminates the neighbours at distance `delta`
template <typename real>
__device__ inline Equation<real> reduce(const Equation<real> &lo, const Equation<real> &mid, const Equation<real> &hi)
{
    const real k1 = mid.a / lo.b;
    const real k2 = mid.c / hi.b;
    Equation<real> e;
    e.a = -lo.a * k1;
    e.b = mid.b - lo.c * k1 - hi.a * k2;
    e.c = -hi.c * k2;
    e.d = mid.d - lo.d * k1 - hi.d * k2;
    return e;
}

template <typename real>
__global__ void tridiag_pcr(const real *a, const real *b, const real *c, const real *d, real *x, int n, int batch)
{
    extern __shared__ __align__(16) unsigned char raw[];
    real *sa = reinterpret_cast<real *>(raw);
    real *sb = sa + n;
    real *sc = sb + n;
    real *sd = sc + n;

    const int i = threadIdx.x;
    const int at = i * batch + blockIdx.x;
    const bool mine = i < n;

    if (mine) {
        sa[i] = i > 0 ? a[at] : real(0);
        sb[i] = b[at];
        sc[i] = i < n - 1 ? c[at] : real(0);
        sd[i] = d[at];
    }
    __syncthreads();

    const Equation<real> none = {real(0), real(1), real(0), real(0)};   // x = 0, outside
    for (int delta = 1; delta < n; delta *= 2) {
        Equation<real> e;
        if (mine) {
            const int l = i - delta, h = i + delta;
            const Equation<real> mid = {sa[i], sb[i], sc[i], sd[i]};
            const Equation<real> lo = l >= 0 ? Equation<real>{sa[l], sb[l], sc[l], sd[l]} : none;
            const Equation<real> hi = h < n ? Equation<real>{sa[h], sb[h], sc[h], sd[h]} : none;
            e = reduce(lo, mid, hi);
        }
        __syncthreads();
        if (mine) {
            sa[i] = e.a;
            sb[i] = e.b;
            sc[i] = e.c;
            sd[i] = e.d;
        }
        __syncthreads();
    }

    if (mine) x[at] = sd[i] / sb[i];
}

template __global__ void tridiag_pcr<float>(const float *, const float *, const float *, const float *, float *, int, int);
