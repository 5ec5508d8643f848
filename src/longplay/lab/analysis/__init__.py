"""Many runs -> numbers that can carry a conclusion. docs/analysis.md defines them."""
