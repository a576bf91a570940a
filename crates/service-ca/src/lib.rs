//! The service CA: serving certificates for Services, and the bundle that trusts them (COP-SCA-01 to COP-SCA-05).
