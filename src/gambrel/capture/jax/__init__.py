"""Functions of JAX: traced to a jaxpr, never run."""
