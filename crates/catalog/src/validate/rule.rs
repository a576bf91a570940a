//! The rules of validation by name, with the requirement of each and the fix.

/// A rule of validation that a catalog broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A package has no name, or one that is not a DNS label.
    PackageName,
    /// Two blobs describe one package.
    DuplicatePackage,
    /// A blob belongs to no package, or to one that no blob describes.
    UnknownPackage,
    /// A channel has no name.
    ChannelName,
    /// Two blobs describe one channel.
    DuplicateChannel,
    /// A channel names a bundle twice.
    DuplicateEntry,
    /// Two blobs describe one bundle.
    DuplicateBundle,
    /// A property has a value whose shape its type does not allow.
    UnreadableProperty,
    /// A bundle has no `olm.package` property, or several.
    PackageProperty,
    /// The `olm.package` property names another package.
    PackagePropertyName,
    /// An image is not a pull spec.
    PullSpec,
    /// A version is not semantic.
    Version,
    /// A release is not a list of identifiers, or stands beside build metadata.
    Release,
    /// A bundle with a release has a name without the release.
    ReleaseName,
    /// No channel has the bundle.
    BundleInNoChannel,
    /// No blob describes the bundle of an entry.
    EntryWithoutBundle,
    /// A package has several deprecation blobs, or one object is deprecated twice.
    DuplicateDeprecations,
    /// A deprecation refers to an object that does not exist.
    DeprecationReference,
    /// A deprecation has no message.
    DeprecationMessage,
    /// A package has no default channel.
    DefaultChannel,
    /// A package has no channel.
    EmptyPackage,
    /// Several bundles of a package have one version.
    DuplicateVersion,
    /// A channel has no bundle.
    EmptyChannel,
    /// Every entry of a channel is replaced or skipped by another.
    NoHead,
    /// Several entries of a channel are neither replaced nor skipped.
    SeveralHeads,
    /// The path down from the head returns to an earlier entry.
    Cycle,
    /// No path leads from an entry to the head.
    Stranded,
    /// An entry has no name.
    EntryName,
    /// An entry skips the empty name.
    EmptySkip,
    /// A skip range cannot be parsed.
    SkipRange,
    /// A bundle has neither an image nor manifests.
    Image,
}

impl Rule {
    /// Its name, for output and for searching.
    pub fn id(self) -> &'static str {
        self.row().0
    }

    /// The requirement behind it.
    pub fn requirement(self) -> &'static str {
        self.row().1
    }

    /// The fix for a finding.
    pub fn fix(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::PackageName => {
                ("package-name", "CATLG-23", "give the package a name of lower case letters, digits and hyphens, at most 63")
            }
            Self::DuplicatePackage => {
                ("duplicate-package", "CATLG-23", "keep one olm.package blob of the package, or list one of the files in .indexignore")
            }
            Self::UnknownPackage => ("unknown-package", "CATLG-23", "set `package` to the name of an olm.package blob of this catalog"),
            Self::ChannelName => ("channel-name", "CATLG-23", "set `name` of the channel"),
            Self::DuplicateChannel => ("duplicate-channel", "CATLG-23", "put the entries of both olm.channel blobs into one"),
            Self::DuplicateEntry => ("duplicate-entry", "CATLG-23", "keep one entry of the bundle in the channel, with the edges of both"),
            Self::DuplicateBundle => {
                ("duplicate-bundle", "CATLG-23", "remove one of the olm.bundle blobs, or give the other version a name of its own")
            }
            Self::UnreadableProperty => (
                "unreadable-property",
                "CATLG-23",
                "give the property a value of the shape that its type has; quote versions and numbers that are text",
            ),
            Self::PackageProperty => {
                ("package-property", "CATLG-23", "give the bundle one property of type olm.package, with packageName and version")
            }
            Self::PackagePropertyName => {
                ("package-property-name", "CATLG-23", "make packageName of the olm.package property equal to `package` of the bundle")
            }
            Self::PullSpec => (
                "pull-spec",
                "CATLG-23",
                "write the image as registry/repository:tag or registry/repository@sha256:digest, without a scheme",
            ),
            Self::Version => ("version", "CATLG-23", "write the version as major.minor.patch, without a leading v"),
            Self::Release => {
                ("release", "CATLG-25", "write the release as identifiers separated by dots, and no build metadata (+...) beside it")
            }
            Self::ReleaseName => ("release-name", "CATLG-25", "name the bundle <package>-v<version>-<release>"),
            Self::BundleInNoChannel => ("bundle-in-no-channel", "CATLG-23", "add the bundle to a channel's entries, or remove its blob"),
            Self::EntryWithoutBundle => ("entry-without-bundle", "CATLG-23", "add the olm.bundle blob of the entry, or remove the entry"),
            Self::DuplicateDeprecations => {
                ("duplicate-deprecations", "CATLG-24", "keep one olm.deprecations blob a package, and one entry an object in it")
            }
            Self::DeprecationReference => (
                "deprecation-reference",
                "CATLG-24",
                "let the reference name a channel or bundle of the package, or olm.package without a name",
            ),
            Self::DeprecationMessage => ("deprecation-message", "CATLG-24", "say in `message` what users are to do instead"),
            Self::DefaultChannel => ("default-channel", "CATLG-25", "set defaultChannel of the package to one of its channels"),
            Self::EmptyPackage => ("empty-package", "CATLG-25", "add an olm.channel blob of the package"),
            Self::DuplicateVersion => ("duplicate-version", "CATLG-25", "give each bundle of the package a version of its own"),
            Self::EmptyChannel => ("empty-channel", "CATLG-25", "add entries to the channel, or remove it and what names it as default"),
            Self::NoHead => {
                ("no-head", "CATLG-26", "break the circle of `replaces` and `skips`, so that one entry is neither replaced nor skipped")
            }
            Self::SeveralHeads => ("several-heads", "CATLG-26", "let one of the heads replace or skip the others"),
            Self::Cycle => ("cycle", "CATLG-26", "remove one of the `replaces` of the circle"),
            Self::Stranded => ("stranded", "CATLG-26", "let an entry on the way from the head replace or skip the stranded ones"),
            Self::EntryName => ("entry-name", "CATLG-25", "set `name` of the entry to the name of a bundle"),
            Self::EmptySkip => ("empty-skip", "CATLG-25", "remove the empty item from `skips`"),
            Self::SkipRange => ("skip-range", "CATLG-25", "write the range with plain versions, for example \">=1.0.0 <1.2.0\""),
            Self::Image => ("image", "CATLG-25", "set `image` of the bundle"),
        }
    }
}
