//! What catalogs answer over the network: `api.Registry` by gRPC, and the content interface of catalogd by HTTP; both over mapped content.
