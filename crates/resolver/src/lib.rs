//! Which bundle, and why: update graphs, constraints, explanations.
