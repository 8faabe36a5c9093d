"""Wrong labels: a toy run makes all lists, resumes, and the page tells who finds more."""
