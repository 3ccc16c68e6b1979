"""How good and how cheap a method is: metrics, comparisons, studies and figures."""
