"""The web page: one document, its looks, and what it does; served by the HTTP gateway."""
