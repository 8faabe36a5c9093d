"""The paper's language model: text coloured by self-influence, rare names, and training without such rows."""
