"""Whether intervals of the curvature estimator hold from one training to the next."""
