target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

%struct.Filter = type { float, float, i32, float* }

@table = internal addrspace(4) constant [4 x float] [float 1.0, float 2.0, float 0.5, float -1.0], align 4
@tile = internal addrspace(3) global [128 x float] undef, align 4

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier0()

define internal float @_ZL5clampfff(float %x, float %low, float %high) noinline {
  %a = fcmp olt float %x, %low
  %b = select i1 %a, float %low, float %x
  %c = fcmp ogt float %b, %high
  %d = select i1 %c, float %high, float %b
  ret float %d
}

define void @_Z6filterPKfPf6Filter(float* %in, float* %out, %struct.Filter* byval(%struct.Filter) align 8 %f) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %cta = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = shl i32 %cta, 7
  %i = add i32 %base, %tid
  %np = getelementptr %struct.Filter, %struct.Filter* %f, i32 0, i32 2
  %n = load i32, i32* %np, align 8
  %in.range = icmp ult i32 %i, %n
  %i64 = zext i32 %i to i64
  br i1 %in.range, label %load, label %stored
load:
  %src = getelementptr float, float* %in, i64 %i64
  %v = load float, float* %src, align 4
  br label %stored
stored:
  %x = phi float [ 0.0, %entry ], [ %v, %load ]
  %slot = getelementptr [128 x float], [128 x float] addrspace(3)* @tile, i32 0, i32 %tid
  store float %x, float addrspace(3)* %slot, align 4
  call void @llvm.nvvm.barrier0()
  %mate = xor i32 %tid, 1
  %mslot = getelementptr [128 x float], [128 x float] addrspace(3)* @tile, i32 0, i32 %mate
  %y = load float, float addrspace(3)* %mslot, align 4
  %kind = and i32 %tid, 7
  switch i32 %kind, label %other [ i32 0, label %c0
                                   i32 1, label %c1
                                   i32 2, label %c2
                                   i32 3, label %c3
                                   i32 4, label %c4
                                   i32 5, label %c5 ]
c0:
  %r0 = fadd float %x, %y
  br label %join
c1:
  %r1 = fsub float %x, %y
  br label %join
c2:
  %r2 = fmul float %x, %y
  br label %join
c3:
  %t3 = and i32 %i, 3
  %tp = getelementptr [4 x float], [4 x float] addrspace(4)* @table, i32 0, i32 %t3
  %tv = load float, float addrspace(4)* %tp, align 4
  %r3 = fmul float %x, %tv
  br label %join
c4:
  %r4 = fneg float %y
  br label %join
c5:
  %r5 = fmul float %x, 3.0
  br label %join
other:
  %gp = getelementptr %struct.Filter, %struct.Filter* %f, i32 0, i32 3
  %g = load float*, float** %gp, align 8
  %gv = load float, float* %g, align 4
  %r6 = fadd float %x, %gv
  br label %join
join:
  %r = phi float [ %r0, %c0 ], [ %r1, %c1 ], [ %r2, %c2 ], [ %r3, %c3 ], [ %r4, %c4 ], [ %r5, %c5 ], [ %r6, %other ]
  %lp = getelementptr %struct.Filter, %struct.Filter* %f, i32 0, i32 0
  %low = load float, float* %lp, align 8
  %hp = getelementptr %struct.Filter, %struct.Filter* %f, i32 0, i32 1
  %high = load float, float* %hp, align 4
  %res = call float @_ZL5clampfff(float %r, float %low, float %high)
  br i1 %in.range, label %store, label %done
store:
  %dst = getelementptr float, float* %out, i64 %i64
  store float %res, float* %dst, align 4
  br label %done
done:
  ret void
}

!nvvm.annotations = !{!0, !1}
!0 = !{void (float*, float*, %struct.Filter*)* @_Z6filterPKfPf6Filter, !"kernel", i32 1}
!1 = !{void (float*, float*, %struct.Filter*)* @_Z6filterPKfPf6Filter, !"maxntidx", i32 128}
