"""Functions that generated code calls out of line: loops of a data-dependent number of steps, which no vectoriser takes."""

from __future__ import annotations

# C's fmod, exactly. The magnitude of the dividend is reduced by the largest t = divisor · 2^(52 k) below it, then by the next smaller
# one, down to the divisor itself. Each quotient is below 2^53 and so an integer that fma subtracts without rounding; it may be one too
# large, and is corrected then.
FLOAT_REMAINDER = """define internal double @float_remainder(double %x, double %y) noinline nounwind memory(none) {
entry:
  %a = call double @llvm.fabs.f64(double %x)
  %b = call double @llvm.fabs.f64(double %y)
  %finite = fcmp olt double %a, 0x7FF0000000000000
  %divides = fcmp ogt double %b, 0.0
  %defined = and i1 %finite, %divides
  br i1 %defined, label %compare, label %undefined
undefined:
  ret double 0x7FF8000000000000
compare:
  %small = fcmp olt double %a, %b
  br i1 %small, label %unchanged, label %scale
unchanged:
  ret double %x
scale:
  %t = phi double [ %b, %compare ], [ %larger, %scale ]
  %larger = fmul double %t, 0x4330000000000000
  %again = fcmp ole double %larger, %a
  br i1 %again, label %scale, label %reduce
reduce:
  %rest = phi double [ %a, %scale ], [ %next, %smaller ]
  %step = phi double [ %t, %scale ], [ %next_step, %smaller ]
  %ratio = fdiv double %rest, %step
  %quotient = call double @llvm.trunc.f64(double %ratio)
  %negated = fneg double %quotient
  %difference = call double @llvm.fma.f64(double %negated, double %step, double %rest)
  %below = fcmp olt double %difference, 0.0
  %corrected = fadd double %difference, %step
  %next = select i1 %below, double %corrected, double %difference
  %last = fcmp oeq double %step, %b
  br i1 %last, label %done, label %smaller
smaller:
  %next_step = fmul double %step, 0x3CB0000000000000
  br label %reduce
done:
  %signed = call double @llvm.copysign.f64(double %next, double %x)
  ret double %signed
}"""
FLOAT_REMAINDER_INTRINSICS = (
    "declare double @llvm.fabs.f64(double)",
    "declare double @llvm.trunc.f64(double)",
    "declare double @llvm.fma.f64(double, double, double)",
    "declare double @llvm.copysign.f64(double, double)",
)

# Square and multiply modulo 2^64. A negative exponent gives 0, or ±1 for a base of ±1; comparing "ult 0" never holds, for unsigned
# exponents.
INTEGER_POWER = """define internal i64 @NAME(i64 %base, i64 %exponent) noinline nounwind memory(none) {
entry:
  %negative = icmp @NEGATIVE i64 %exponent, 0
  br i1 %negative, label %reciprocal, label %loop
reciprocal:
  %odd = and i64 %exponent, 1
  %is_one = icmp eq i64 %base, 1
  %is_minus_one = icmp eq i64 %base, -1
  %even = icmp eq i64 %odd, 0
  %sign = select i1 %even, i64 1, i64 -1
  %of_minus_one = select i1 %is_minus_one, i64 %sign, i64 0
  %unit = select i1 %is_one, i64 1, i64 %of_minus_one
  ret i64 %unit
loop:
  %result = phi i64 [ 1, %entry ], [ %next_result, %loop ]
  %square = phi i64 [ %base, %entry ], [ %next_square, %loop ]
  %rest = phi i64 [ %exponent, %entry ], [ %next_rest, %loop ]
  %bit = and i64 %rest, 1
  %set = icmp ne i64 %bit, 0
  %product = mul i64 %result, %square
  %next_result = select i1 %set, i64 %product, i64 %result
  %next_square = mul i64 %square, %square
  %next_rest = lshr i64 %rest, 1
  %more = icmp ne i64 %next_rest, 0
  br i1 %more, label %loop, label %done
done:
  ret i64 %next_result
}"""
