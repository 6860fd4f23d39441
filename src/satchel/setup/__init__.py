"""First steps on a machine: initialization, agent hosts, capture."""
