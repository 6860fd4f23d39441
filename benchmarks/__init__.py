"""What the bounds in the documentation are measured with; see docs/benchmarks.md."""
