"""How noise falls with width and replicas, and how signal falls with the number of rows."""
