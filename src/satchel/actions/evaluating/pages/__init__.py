"""Reports as one page each: tables and plots in one HTML file that asks for nothing else."""
