//! Payloads from every place.

mod places;
