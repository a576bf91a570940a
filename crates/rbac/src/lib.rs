//! Role-based access control as Kubernetes decides it, and its bootstrap policy.
