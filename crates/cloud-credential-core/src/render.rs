//! What `ccoctl` writes without a call to a cloud (COP-CRED-08).
