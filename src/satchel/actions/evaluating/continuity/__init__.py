"""Whether an agent goes on as well with memory that was carried over: TCS and RHF."""
