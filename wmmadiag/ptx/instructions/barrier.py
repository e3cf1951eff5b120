"""Block and warp barriers, fences, mbarrier. Source: PTX ISA 9.x, "Parallel Synchronization and Communication"."""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import form
from wmmadiag.ptx.instructions.memory import SCOPE, SHARED

_GENERIC = {"space": "generic"}
# `bar` is the old name of `barrier.aligned`.
_NAMES = (("bar{.cta}", "", "1"), ("barrier{.cta}", ".aligned", "1"), ("barrier{.cta}", "", "0"))
_MB = {"space": SHARED}
_ARRIVE = {"sem": "release relaxed", "scope": "cta cluster", "space": SHARED}
_WAIT = {"sem": "acquire relaxed", "scope": "cta cluster", "space": SHARED}

ROWS = (
    *(
        row
        for name, suffix, aligned in _NAMES
        for attributes in ({"aligned": aligned},)
        for row in (
            form(f"{name}.sync{suffix} a:u32, b?:u32", op="bar.sync", defaults=attributes),
            form(f"{name}.arrive{suffix} a:u32, b:u32", op="bar.arrive", defaults=attributes),
            *(form(f"{name}.red.operation{suffix}.type d, a:u32, {threads}c:pred", op="bar.red", defaults=attributes,
                   operation=operation, type=result)
              for operation, result in (("and or", "pred"), ("popc", "u32"))
              for threads in ("", "b:u32, ")),
        )
    ),
    form("bar.warp.sync mask:u32", op="bar.warp.sync"),
    form("membar.level", op="membar", level="cta gl sys"),
    form("membar.proxy.alias", op="fence", defaults={"proxy": "alias"}),
    form("fence{.sem}.scope", op="fence", defaults={"sem": "acq_rel"}, sem="sc acq_rel acquire release", scope=SCOPE),
    form("fence.proxy.alias", op="fence", defaults={"proxy": "alias"}, since="7.5 sm_70"),
    form("fence.proxy.async", op="fence", defaults={"proxy": "async"}, since="8.0 sm_90"),
    form("fence.proxy.async.space", op="fence", defaults={"proxy": "async"},
         space="global shared::cta=shared shared::cluster=shared", since="8.0 sm_90"),
    form("fence.mbarrier_init.release.cluster", op="fence", defaults={"sem": "mbarrier_init", "scope": "cluster"},
         since="8.0 sm_90"),
    form("mbarrier.init{.space}.b64 [addr], count:u32", op="mbarrier.init", defaults=_GENERIC, slots=_MB,
         since="7.0 sm_80"),
    form("mbarrier.inval{.space}.b64 [addr]", op="mbarrier.inval", defaults=_GENERIC, slots=_MB, since="7.0 sm_80"),
    *(
        row
        for name, since in (("arrive", "7.0 sm_80"), ("arrive_drop", "7.1 sm_80"))
        for row in (
            form(f"mbarrier.{name}{{.sem.scope}}{{.space}}.b64 =state, [addr], count?:u32", op=f"mbarrier.{name}",
                 defaults=_GENERIC, since=since, slots=_ARRIVE),
            form(f"mbarrier.{name}.expect_tx{{.sem.scope}}{{.space}}.b64 =state, [addr], tx:u32",
                 op=f"mbarrier.{name}", defaults={**_GENERIC, "expect_tx": "1"}, since="8.0 sm_90",
                 slots=_ARRIVE),
            form(f"mbarrier.{name}.noComplete{{.sem.scope}}{{.space}}.b64 =state, [addr], count:u32",
                 op=f"mbarrier.{name}", defaults={**_GENERIC, "nocomplete": "1"}, since=since,
                 slots={**_ARRIVE, "sem": "release", "scope": "cta"}),
        )
    ),
    *(
        row
        for name, hint, since in (("test_wait", "", "7.0 sm_80"), ("try_wait", ", hint?:u32", "7.8 sm_90"))
        for row in (
            form(f"mbarrier.{name}{{.sem.scope}}{{.space}}.b64 d:pred, [addr], state:b64{hint}",
                 op=f"mbarrier.{name}", defaults=_GENERIC, since=since, slots=_WAIT),
            form(f"mbarrier.{name}.parity{{.sem.scope}}{{.space}}.b64 d:pred, [addr], parity:u32{hint}",
                 op=f"mbarrier.{name}", defaults={**_GENERIC, "parity": "1"}, since=since, slots=_WAIT),
        )
    ),
    form("mbarrier.pending_count.b64 d:u32, state:b64", op="mbarrier.pending_count", since="7.0 sm_80"),
    *(
        form(f"mbarrier.{name}{{.sem.scope}}{{.space}}.b64 [addr], tx:u32", op=f"mbarrier.{name}", defaults=_GENERIC,
             sem="relaxed", scope="cta cluster", space=SHARED, since="8.0 sm_90")
        for name in ("expect_tx", "complete_tx")
    ),
)  # fmt: skip
