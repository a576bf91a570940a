//! The statements of the migrations. Names, types, keys and cascading deletes are the format; other programs read it.

/// The table of applied migrations.
pub(super) const MIGRATIONS_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS schema_migrations (version bigint NOT NULL, timestamp DATETIME DEFAULT CURRENT_TIMESTAMP)";

/// Version 0.
pub(super) const INITIAL: &str = "
CREATE TABLE IF NOT EXISTS operatorbundle (name TEXT PRIMARY KEY, csv TEXT UNIQUE, bundle TEXT);
CREATE TABLE IF NOT EXISTS package (
    name TEXT PRIMARY KEY,
    default_channel TEXT,
    FOREIGN KEY(name, default_channel) REFERENCES channel(package_name, name)
);
CREATE TABLE IF NOT EXISTS channel (
    name TEXT,
    package_name TEXT,
    head_operatorbundle_name TEXT,
    PRIMARY KEY(name, package_name),
    FOREIGN KEY(package_name) REFERENCES package(name),
    FOREIGN KEY(head_operatorbundle_name) REFERENCES operatorbundle(name)
);
CREATE TABLE IF NOT EXISTS channel_entry (
    entry_id INTEGER PRIMARY KEY,
    channel_name TEXT,
    package_name TEXT,
    operatorbundle_name TEXT,
    replaces INTEGER,
    depth INTEGER,
    FOREIGN KEY(replaces) REFERENCES channel_entry(entry_id) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY(channel_name, package_name) REFERENCES channel(name, package_name)
);
CREATE TABLE IF NOT EXISTS api (
    group_name TEXT,
    version TEXT,
    kind TEXT,
    plural TEXT NOT NULL,
    PRIMARY KEY(group_name, version, kind)
);
CREATE TABLE IF NOT EXISTS api_provider (
    group_name TEXT,
    version TEXT,
    kind TEXT,
    channel_entry_id INTEGER,
    FOREIGN KEY(channel_entry_id) REFERENCES channel_entry(entry_id),
    FOREIGN KEY(group_name, version, kind) REFERENCES api(group_name, version, kind)
);";

/// Version 1.
pub(super) const RELATED_IMAGES: &str = "
CREATE TABLE IF NOT EXISTS related_image (
    image TEXT,
    operatorbundle_name TEXT,
    FOREIGN KEY(operatorbundle_name) REFERENCES operatorbundle(name)
);";

/// Version 3.
pub(super) const REQUIRED_APIS: &str = "
CREATE TABLE IF NOT EXISTS api_requirer (
    group_name TEXT,
    version TEXT,
    kind TEXT,
    channel_entry_id INTEGER,
    FOREIGN KEY(channel_entry_id) REFERENCES channel_entry(entry_id),
    FOREIGN KEY(group_name, version, kind) REFERENCES api(group_name, version, kind)
);";

/// Version 4: the tables are recreated, so that a delete also removes dependent rows.
pub(super) const CASCADING: [(&str, &str); 7] = [
    ("operatorbundle", "CREATE TABLE operatorbundle (name TEXT PRIMARY KEY, csv TEXT, bundle TEXT, bundlepath TEXT)"),
    (
        "package",
        "CREATE TABLE package (
    name TEXT PRIMARY KEY,
    default_channel TEXT,
    FOREIGN KEY(name, default_channel) REFERENCES channel(package_name, name) ON DELETE CASCADE
)",
    ),
    (
        "channel",
        "CREATE TABLE channel (
    name TEXT,
    package_name TEXT,
    head_operatorbundle_name TEXT,
    PRIMARY KEY(name, package_name),
    FOREIGN KEY(head_operatorbundle_name) REFERENCES operatorbundle(name) ON DELETE CASCADE
)",
    ),
    (
        "channel_entry",
        "CREATE TABLE channel_entry (
    entry_id INTEGER PRIMARY KEY,
    channel_name TEXT,
    package_name TEXT,
    operatorbundle_name TEXT,
    replaces INTEGER,
    depth INTEGER,
    FOREIGN KEY(replaces) REFERENCES channel_entry(entry_id) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY(channel_name, package_name) REFERENCES channel(name, package_name) ON DELETE CASCADE
)",
    ),
    (
        "api_provider",
        "CREATE TABLE api_provider (
    group_name TEXT,
    version TEXT,
    kind TEXT,
    channel_entry_id INTEGER,
    PRIMARY KEY(group_name, version, kind, channel_entry_id),
    FOREIGN KEY(channel_entry_id) REFERENCES channel_entry(entry_id) ON DELETE CASCADE,
    FOREIGN KEY(group_name, version, kind) REFERENCES api(group_name, version, kind)
)",
    ),
    (
        "related_image",
        "CREATE TABLE related_image (
    image TEXT,
    operatorbundle_name TEXT,
    FOREIGN KEY(operatorbundle_name) REFERENCES operatorbundle(name) ON DELETE CASCADE
)",
    ),
    (
        "api_requirer",
        "CREATE TABLE api_requirer (
    group_name TEXT,
    version TEXT,
    kind TEXT,
    channel_entry_id INTEGER,
    PRIMARY KEY(group_name, version, kind, channel_entry_id),
    FOREIGN KEY(channel_entry_id) REFERENCES channel_entry(entry_id) ON DELETE CASCADE,
    FOREIGN KEY(group_name, version, kind) REFERENCES api(group_name, version, kind)
)",
    ),
];

/// Version 6: APIs belong to bundles, no longer to entries of channels.
pub(super) const APIS_OF_BUNDLES: &str = "
CREATE TABLE api_provider_new (
    group_name TEXT,
    version TEXT,
    kind TEXT,
    operatorbundle_name TEXT,
    operatorbundle_version TEXT,
    operatorbundle_path TEXT,
    FOREIGN KEY(operatorbundle_name, operatorbundle_version, operatorbundle_path)
        REFERENCES operatorbundle(name, version, bundlepath) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY(group_name, version, kind) REFERENCES api(group_name, version, kind) ON DELETE CASCADE
);
CREATE TABLE api_requirer_new (
    group_name TEXT,
    version TEXT,
    kind TEXT,
    operatorbundle_name TEXT,
    operatorbundle_version TEXT,
    operatorbundle_path TEXT,
    FOREIGN KEY(operatorbundle_name, operatorbundle_version, operatorbundle_path)
        REFERENCES operatorbundle(name, version, bundlepath) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY(group_name, version, kind) REFERENCES api(group_name, version, kind) ON DELETE CASCADE
);
CREATE UNIQUE INDEX pk ON operatorbundle(name, version, bundlepath);
INSERT INTO api_provider_new
    SELECT DISTINCT a.group_name, a.version, a.kind, b.name, b.version, b.bundlepath
    FROM api_provider a
    JOIN channel_entry e ON e.entry_id = a.channel_entry_id
    JOIN operatorbundle b ON b.name = e.operatorbundle_name
    WHERE a.group_name IS NOT NULL AND a.version IS NOT NULL AND a.kind IS NOT NULL;
INSERT INTO api_requirer_new
    SELECT DISTINCT a.group_name, a.version, a.kind, b.name, b.version, b.bundlepath
    FROM api_requirer a
    JOIN channel_entry e ON e.entry_id = a.channel_entry_id
    JOIN operatorbundle b ON b.name = e.operatorbundle_name
    WHERE a.group_name IS NOT NULL AND a.version IS NOT NULL AND a.kind IS NOT NULL;
DROP TABLE api_provider;
DROP TABLE api_requirer;
ALTER TABLE api_provider_new RENAME TO api_provider;
ALTER TABLE api_requirer_new RENAME TO api_requirer;";

/// Version 7: an API without any provider or requirer is deleted. The condition joins the two tables without a key, so that one of them
/// being empty is enough; it is part of the format.
pub(crate) const PROVIDER_CLEANUP: &str = "
CREATE TRIGGER api_provider_cleanup
AFTER DELETE ON api_provider
WHEN NOT EXISTS (SELECT 1 FROM api_provider JOIN api_requirer WHERE
    (api_provider.group_name = OLD.group_name AND api_provider.version = OLD.version AND api_provider.kind = OLD.kind) OR
    (api_requirer.group_name = OLD.group_name AND api_requirer.version = OLD.version AND api_requirer.kind = OLD.kind))
BEGIN
    DELETE FROM api WHERE group_name = OLD.group_name AND version = OLD.version AND kind = OLD.kind;
END";

/// Version 7, for the other table.
pub(crate) const REQUIRER_CLEANUP: &str = "
CREATE TRIGGER api_requirer_cleanup
AFTER DELETE ON api_requirer
WHEN NOT EXISTS (SELECT 1 FROM api_provider JOIN api_requirer WHERE
    (api_provider.group_name = OLD.group_name AND api_provider.version = OLD.version AND api_provider.kind = OLD.kind) OR
    (api_requirer.group_name = OLD.group_name AND api_requirer.version = OLD.version AND api_requirer.kind = OLD.kind))
BEGIN
    DELETE FROM api WHERE group_name = OLD.group_name AND version = OLD.version AND kind = OLD.kind;
END";

/// Version 8.
pub(super) const DEPENDENCIES: &str = "
CREATE TABLE IF NOT EXISTS dependencies (
    type TEXT,
    value TEXT,
    operatorbundle_name TEXT,
    operatorbundle_version TEXT,
    operatorbundle_path TEXT,
    FOREIGN KEY(operatorbundle_name, operatorbundle_version, operatorbundle_path)
        REFERENCES operatorbundle(name, version, bundlepath) ON DELETE CASCADE
);";

/// Version 9.
pub(super) const PROPERTIES: &str = "
CREATE TABLE IF NOT EXISTS properties (
    type TEXT,
    value TEXT,
    operatorbundle_name TEXT,
    operatorbundle_version TEXT,
    operatorbundle_path TEXT,
    FOREIGN KEY(operatorbundle_name, operatorbundle_version, operatorbundle_path)
        REFERENCES operatorbundle(name, version, bundlepath) ON DELETE CASCADE
);";

/// Version 10.
pub(super) const PATHS_OF_PROPERTIES: &str = "
UPDATE properties SET operatorbundle_path = (
    SELECT bundlepath FROM operatorbundle
    WHERE operatorbundle_name = operatorbundle.name AND operatorbundle_version = operatorbundle.version
)";

/// Version 12. No foreign key: the table outlives the bundles that are added again.
pub(super) const DEPRECATED: &str = "
CREATE TABLE IF NOT EXISTS deprecated (operatorbundle_name TEXT PRIMARY KEY);
INSERT OR REPLACE INTO deprecated(operatorbundle_name)
    SELECT operatorbundle_name FROM properties WHERE properties.type = 'olm.deprecated';";

/// Version 13, and after each deprecation.
pub(crate) const FORGET_TRUNCATED: &str = "
DELETE FROM deprecated WHERE operatorbundle_name NOT IN (SELECT name FROM operatorbundle WHERE name IS NOT NULL)";
