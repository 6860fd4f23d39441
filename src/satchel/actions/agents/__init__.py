"""Memory of agents in amplihack's two tiers: the flat one of sessions, the hierarchical one."""
