//! Kube client set-up, caches, work queues with back-off, Env.
