"""The paper's language model: text colored by self-influence, rare names, and training without such rows."""
