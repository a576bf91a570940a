//! The rules: stable names, severity, reason and fix.

use serde::{Serialize, Serializer};

use crate::{Level, validate};

macro_rules! rules {
    ($($variant:ident, $id:literal, $level:ident, $title:literal, $why:literal, $fix:literal;)*) => {
        /// A rule of `catalog lint`; the names are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $title] $variant,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name.
            pub fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }

            /// The severity of its findings.
            pub fn level(self) -> Level {
                match self { $(Self::$variant => Level::$level,)* }
            }

            /// Its subject, in one line.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// The reason why it matters.
            pub fn why(self) -> &'static str {
                match self { $(Self::$variant => $why,)* }
            }

            /// The fix.
            pub fn fix(self) -> &'static str {
                match self { $(Self::$variant => $fix,)* }
            }
        }
    };
}

rules! {
    Invalid, "invalid", Error, "The catalog is not valid",
        "`opm validate` refuses the catalog for this, and so does every cluster that should serve it.",
        "correct what the message names; `mainstay opm validate --all` shows the same findings as a tree";
    NoHead, "no-head", Error, "A channel has no head",
        "The head of a channel is the entry that no other entry replaces or skips. Without one there is nothing to install from the channel.",
        "let the newest entry be replaced and skipped by no other";
    MultipleHeads, "multiple-heads", Error, "A channel has several heads",
        "The head of a channel is the entry that no other entry replaces or skips. With several it is undefined what a new installation gets.",
        "let the newest entry replace or skip the other heads";
    ReplacesCycle, "replaces-cycle", Error, "Entries replace each other in a circle",
        "An update along a circle never ends, so OLM refuses the channel.",
        "take out the `replaces` that leads from an older entry to a newer one";
    Stranded, "stranded", Error, "An entry is cut off from the head",
        "Validation wants every entry on the chain of `replaces` from the head, or skipped by an entry. Whoever has such a bundle installed gets no update.",
        "let an entry on the chain replace or skip the bundle, or take its entry out of the channel";
    Unreachable, "unreachable", Error, "No updates lead from a bundle to the head",
        "Following `replaces`, `skips` and `skipRange` from the bundle ends before the head, so whoever has it installed stays behind for ever.",
        "let an entry on the way to the head replace or skip the bundle, or widen the skipRange of the head";
    EdgeBackwards, "edge-backwards", Warning, "An update leads to a lower version",
        "The entry replaces or skips a bundle whose version is higher than or equal to its own: the update is a downgrade, which operators rarely survive.",
        "let the higher version replace the lower one, or publish the older content again with a higher version";
    SkipRangeNewer, "skip-range-newer", Warning, "A skipRange covers newer versions of its channel",
        "The range contains versions above the entry's own, so an installed newer bundle is offered the older one.",
        "bound the range with `<` and the entry's own version";
    SkipRangeEmpty, "skip-range-empty", Warning, "A skipRange contains no version at all",
        "No version lies in the range, so it never offers an update.",
        "correct the bounds: in this dialect a blank is `and`, `||` is `or`";
    SkipRangeUnmatched, "skip-range-unmatched", Info, "A skipRange matches no older version of the package",
        "The package has older bundles, and none is in the range. Often the range was copied, or pre-releases were forgotten.",
        "check the lower bound; a pre-release such as 1.2.0-rc.1 is lower than 1.2.0";
    SkipRangeShadows, "skip-range-shadows", Info, "The head updates everything at once",
        "The head's skipRange covers every older version of the channel, so that no installation ever passes through the entries between. That is right only when every version can update to the head directly.",
        "end the range where an intermediate version is needed for a migration";
    Misspelt, "misspelt-edge", Warning, "An edge names a bundle that is spelt differently",
        "`replaces` or `skips` names a bundle that the package does not have, and it has one whose name differs only in case, in the `v` or in signs. The edge leads nowhere.",
        "use the bundle's exact name";
    EdgeOtherChannel, "replaces-outside", Info, "An entry replaces a bundle that is not in its channel",
        "The package has the bundle, but the channel has not, although the entry is not its oldest one. Whoever switches to the channel is updated; the chain inside the channel ends here.",
        "add the bundle's entry to the channel if the chain should go on";
    DefaultChannelMissing, "default-channel-missing", Error, "The default channel does not exist",
        "Installations that name no channel follow the default channel; consoles show its head.",
        "set defaultChannel of the olm.package blob to one of the package's channels";
    DefaultChannelUnstable, "default-channel-unstable", Warning, "A more stable channel than the default one exists",
        "By their names, the default channel is for testing, and the package has a channel for production.",
        "make the stable channel the default";
    DefaultChannelBehind, "default-channel-behind", Info, "The default channel is behind another one of its kind",
        "Another channel that is as stable by its name has a head with a higher version, which new installations do not get.",
        "make the channel with the newest releases the default";
    ChannelName, "channel-name", Warning, "A channel name is awkward",
        "Channel names become values of labels and parts of commands; blanks, slashes and over-long names break those.",
        "use letters, digits, `-`, `_` and `.`, at most 63, beginning and ending with a letter or digit";
    IconMissing, "icon-missing", Info, "The package has no icon",
        "Consoles show a placeholder instead.",
        "add icon.base64data and icon.mediatype to the olm.package blob; `mainstay opm init --icon FILE` writes them";
    IconBroken, "icon-broken", Warning, "The icon is not readable",
        "Consoles show a broken picture: the data is no base64, is empty, or is no picture.",
        "encode the picture with base64 without line breaks";
    IconMediaType, "icon-media-type", Warning, "The icon's media type is not that of its content",
        "Browsers that do not guess show a broken picture.",
        "set icon.mediatype to what the data is";
    IconLarge, "icon-large", Info, "The icon is larger than 100 kB",
        "Every console page that lists the package transfers it.",
        "make it smaller, for example as an optimised SVG";
    DescriptionMissing, "description-missing", Info, "There is no description",
        "Neither the package nor the head of its default channel describes the operator.",
        "fill spec.description of the CSV, or description of the olm.package blob";
    MetadataMissing, "metadata-missing", Warning, "The head has no metadata for consoles",
        "Without olm.csv.metadata or the CSV in olm.bundle.object, consoles know neither display name nor description, and OLM classic has no CSV to serve.",
        "render the bundle again with `mainstay opm render`";
    MetadataBroken, "metadata-broken", Warning, "The head's metadata cannot be read",
        "A field has another type than the CSV defines, so consoles fail or leave it out.",
        "correct the CSV and publish a new bundle";
    DisplayNameMissing, "display-name-missing", Warning, "The head has no display name",
        "Consoles show the name of the bundle instead.",
        "fill spec.displayName of the CSV";
    ProviderMissing, "provider-missing", Info, "The head names no provider",
        "Consoles group and filter by it.",
        "fill spec.provider.name of the CSV";
    InstallModesMissing, "install-modes-missing", Warning, "The head supports no install mode",
        "With no supported install mode OLM refuses every installation.",
        "set `supported: true` for at least one of spec.installModes of the CSV";
    Capability, "capability-level", Warning, "The capability level is none that consoles know",
        "Consoles filter by the five levels; any other value is shown nowhere.",
        "use Basic Install, Seamless Upgrades, Full Lifecycle, Deep Insights or Auto Pilot";
    CategoryMissing, "category-missing", Info, "The head has no category",
        "Consoles list it under Other.",
        "set the annotation `categories` of the CSV";
    ImageByTag, "image-by-tag", Warning, "Bundle images are referred to by tag",
        "A tag can be moved, so the bundle that is installed need not be the bundle that was tested; mirrors by digest do not find it.",
        "refer to bundle images by digest (NAME@sha256:...)";
    RelatedImageByTag, "related-image-by-tag", Info, "Related images are referred to by tag",
        "A tag can be moved, and disconnected clusters mirror images by digest.",
        "refer to images by digest in the CSV";
    RelatedImagesMissing, "related-images-missing", Warning, "A bundle lists no related images",
        "Mirroring copies what relatedImages lists; without it a disconnected cluster cannot run the operator.",
        "render the bundle again with `mainstay opm render`, which fills the list";
    ImageShared, "image-shared", Warning, "Several bundles have one image",
        "An image holds one bundle, so at least one of the names is wrong.",
        "give each bundle the image that it was built as";
    NameVersion, "name-version", Warning, "Name and version of a bundle disagree",
        "People read the version from the name (NAME.vVERSION); OLM takes the one in olm.package.",
        "name the bundle after its version";
    MinKubeVersion, "min-kube-version", Warning, "minKubeVersion is not a version",
        "OLM cannot compare it with the cluster's version and refuses the bundle.",
        "write it as 1.28.0";
    MaxOpenShiftVersion, "max-openshift-version", Warning, "olm.maxOpenShiftVersion is not a version",
        "The platform cannot compare it with its own version, and blocks its own updates.",
        "write it as \"4.19\"";
    UnknownProperty, "unknown-property", Warning, "A property type of olm.* is not known",
        "olm.* is reserved. A misspelt type is ignored without a word.",
        "correct the spelling, or use a prefix of your own";
    UnknownSchema, "unknown-schema", Warning, "A schema of olm.* is not known",
        "olm.* is reserved. A misspelt schema is kept and ignored without a word.",
        "correct the spelling, or use a prefix of your own";
    BundleObject, "bundle-object", Info, "Bundles carry their manifests",
        "olm.bundle.object makes catalogs large and slow; olm.csv.metadata holds what consoles need.",
        "migrate with `mainstay opm render --migrate`";
    LargeBlob, "large-blob", Warning, "A blob is larger than 4 MiB",
        "Clients of the registry API refuse messages above 4 MiB unless told otherwise.",
        "migrate olm.bundle.object properties, and shorten what the CSV holds (alm-examples, icons)";
    DependencyRange, "dependency-range", Error, "The range of a dependency cannot be read",
        "OLM cannot resolve the bundle.",
        "write the range in the catalogs' dialect, for example \">=1.2.0 <2.0.0\"";
    DependencyMissing, "dependency-missing", Warning, "Nothing in the catalog satisfies a dependency",
        "Unless another catalog on the cluster provides it, the bundle cannot be installed.",
        "add a package that provides it, or tell users which catalog has it";
    DependencyUndeclared, "dependency-undeclared", Warning, "A required API is no dependency",
        "The CSV names the API as required, and neither an olm.gvk nor an olm.package dependency brings its provider: the operator is installed without it, and fails.",
        "add the dependency olm.gvk of the API, or olm.package of the package that provides it";
    DependencyApiOnly, "dependency-api-only", Info, "A dependency names an API, and its only provider is known",
        "A dependency on an API alone accepts every version of the provider that has the API, also one that is too old, and every other package that provides the API one day.",
        "name the package and its minimum version beside the API: one olm.constraint with `all` of `package` and `gvk`, or olm.package in place of olm.gvk";
    DependencyNarrow, "dependency-range-narrow", Warning, "The range of a dependency ends inside of a major version",
        "With every release of the dependency the bundle needs a new release too; until then it holds the dependency's updates back, also those with security fixes, for everybody in its namespace.",
        "leave the upper end out, or end the range before the next major version (\">1.0.0 <2.0.0\"); exclude a single bad version with \"!1.5.0\"";
    DependencyMixed, "dependency-mixed", Warning, "Separate dependencies name a package and an API of it",
        "Separate dependencies are not joined by `and`: each is satisfied on its own, so that one operator may be chosen for the package and another for the API.",
        "join them in one olm.constraint with `all` of `package` and `gvk` (or one `cel` rule), which one operator must satisfy; or keep one of the two";
    DependencyAllPackages, "dependency-all-packages", Warning, "An `all` constraint names several packages",
        "OLM classic tests a constraint on one bundle at a time, and no bundle belongs to two packages: the bundle can never be installed.",
        "write one dependency olm.package for each package; separate dependencies must all be satisfied";
    DependencyCycle, "dependency-cycle", Info, "Packages need each other",
        "None of them can be installed or removed on its own.",
        "take out the dependency that is not essential";
    ApiProviders, "api-providers", Warning, "Several packages provide one API",
        "They cannot be installed together on one cluster, and a dependency on the API does not say which one is meant.",
        "make sure that this is meant, for example by deprecating one of the packages";
    DeprecatedHead, "deprecated-head", Warning, "The head of a channel is deprecated, the channel is not",
        "New installations from the channel begin with a warning and have nothing to update to.",
        "deprecate the channel, or publish a bundle that replaces the head";
    DeprecatedDefault, "deprecated-default", Warning, "The default channel is deprecated, the package is not",
        "Installations that name no channel follow a deprecated one.",
        "make another channel the default";
    DeprecatedAll, "deprecated-all", Warning, "Every channel is deprecated, the package is not",
        "There is nothing left to install, but the package looks alive.",
        "deprecate the package";
    BundleMismatch, "bundle-mismatch", Error, "A bundle's blob is not what its image or directory renders to",
        "What is resolved, shown and mirrored is not what gets installed.",
        "render the bundle again, or publish what was changed as a new bundle";
    BundleUnread, "bundle-unread", Error, "A bundle could not be compared",
        "Its image or directory cannot be read, so it cannot be installed either.",
        "publish the bundle image, or correct the reference";
}

impl Rule {
    /// Returns the rule of that name.
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.id() == id)
    }

    /// The rule for a finding of validation; findings that are not about a channel's graph belong to [`Rule::Invalid`].
    pub(super) fn of_validation(rule: validate::Rule) -> Self {
        match rule {
            validate::Rule::NoHead => Self::NoHead,
            validate::Rule::SeveralHeads => Self::MultipleHeads,
            validate::Rule::Cycle => Self::ReplacesCycle,
            validate::Rule::Stranded => Self::Stranded,
            _ => Self::Invalid,
        }
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}
