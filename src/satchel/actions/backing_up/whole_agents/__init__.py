"""What agents are besides their memory, in backups: taken, put back, tried."""
