//! Layered drawings of directed graphs, for terminals and pages. Knows no subject: nodes have names and marks, edges have kinds.
