//! Index databases (SQLite), the older form of catalogs: read them into the catalog model, and write what `opm index` and `opm registry` write.
