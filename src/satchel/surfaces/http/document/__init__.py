"""The OpenAPI document, with an example of each request."""
