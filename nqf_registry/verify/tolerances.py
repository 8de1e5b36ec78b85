"""Every tolerance of the verifier, with where it comes from. All are relative, and all are for float64 (rounding 1.1e-16).

| name | value | derivation |
|---|---|---|
| EQUAL | 1e-9 | two evaluations of one number: sums of 10⁴ terms in another order differ by 1e-12; a thousand times that |
| SINGLE | 1e-3 | the same where the layer computes in float32, which other checks refuse |
| AUTODIFF | 1e-10 | autodiff against a closed form: both exact up to rounding amplified by the layer's own sums |
| DIFFERENCES | 1e-6 | a fit of degree 7 over 1/16 of the length scale: truncation and amplified rounding stay below 1e-8 |
| COARSE | 1e-5 | differences at two steps that agree no better than this are no measurement |
| KINK | 1e-5 | jump of a one-sided coefficient of order ≤ 3; the fit reaches 1e-7, a kink of strength s gives s |
| EXACT | 1e-11 | f against a quadratic form: rounding of sums of up to 10⁵ terms |
| SLOPE | 2.95 | a remainder O(ε³), less what three decades leave of the next order |
| EVEN_SLOPE | 3.9 | a remainder O(ε⁴) of a layer that is even in each neuron |
| PRECISION | 1e-11 | measured rounding of f above which its arithmetic is not float64's |
"""

EQUAL = 1e-9
SINGLE = 1e-3
AUTODIFF = 1e-10
DIFFERENCES = 1e-6
COARSE = 1e-5
KINK = 1e-5
EXACT = 1e-11
SLOPE = 2.95
EVEN_SLOPE = 3.9
PRECISION = 1e-11

MEMORY = 2**26  # bytes of dense second derivatives; what autodiff holds on the way is about ten times that
