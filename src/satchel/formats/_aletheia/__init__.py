"""What an agent file holds, as records and back; see ``formats.vendor.aletheia``."""
