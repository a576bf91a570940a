//! The sources of a new release: an image stream, another release, folders, and images that the user named.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use futures::StreamExt as _;
use mainstay_objects::ObjectRef;
use mainstay_oci::{Client, Digest};
use mainstay_release::compose::{Composed, Inputs, Mappings, Operator, ReferenceMode};
use mainstay_release::info::{self, Info};
use mainstay_release::{Files, Folder, ReleaseImage};
use mainstay_release_source::{ComponentImage, Limits, component, folders};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use serde_json::Value;

use super::new::Arguments;
use super::registry::told;
use super::{Refused, refuse, tell};

/// The longest image stream that is read.
const MAX_STREAM: u64 = 64 << 20;
/// The label of a release with the digest of the image that it is built on.
pub(super) const BASE_DIGEST: &str = "io.openshift.release.base-image-digest";
const REFERENCES: &str = "image-references";

/// The arguments that decide about inputs.
pub(super) struct Asked {
    pub mappings: Mappings,
    pub exclude: BTreeSet<String>,
    pub mode: ReferenceMode,
    /// A release that it is made from is changed.
    pub is_changed: bool,
}

/// The inputs, before images were looked at.
pub(super) struct Sourced {
    pub inputs: Inputs,
    /// The manifests of folders; none if images bring them.
    folders: Option<Vec<Operator>>,
    /// The release that it is made from.
    pub release: Option<Before>,
}

/// The release that a new one is made from.
pub(super) struct Before {
    pub name: String,
    pub metadata: Option<info::Metadata>,
    /// The digest of the image that it is built on.
    pub base_digest: Option<String>,
    /// Nothing is changed: the same release is to come out.
    pub is_canonical: bool,
    asked: String,
    image: Option<ReleaseImage>,
    files: Files,
}

impl Before {
    /// Compares what came out of it with itself.
    pub(super) fn compare(&self, digest: &Digest, composed: &Composed) -> Result<(), Failure> {
        if self.image.as_ref().is_none_or(|image| image.listed == digest.as_str() || image.digest == digest.as_str()) {
            return Ok(());
        }
        let own = |files: &Files| -> Vec<(String, Vec<u8>)> {
            files.in_folder(Folder::Release).map(|(name, content)| (name.to_owned(), content.to_vec())).collect()
        };
        let (before, after) = (own(&self.files), own(&composed.files));
        if before == after {
            tell(&format!("info: The files are those of {}; the image has another digest, since another program wrote it", self.asked));
            return Ok(());
        }
        let names = |one: &[(String, Vec<u8>)], other: &[(String, Vec<u8>)]| -> BTreeSet<String> {
            one.iter().filter(|file| !other.contains(file)).map(|(name, _)| name.clone()).collect()
        };
        let mut different = names(&before, &after);
        different.extend(names(&after, &before));
        Err(refuse(&Refused::NotReproduced(different.into_iter().take(20).fold(String::new(), |all, name| format!("{all}\n  {name}")))))
    }
}

/// Reads the inputs.
pub(super) async fn read(arguments: &Arguments, asked: &Asked, client: &Client, cluster: &ClusterArgs) -> Result<Sourced, Failure> {
    let mut sourced = if let Some(release) = &arguments.from_release {
        of_release(arguments, asked, client, release).await?
    } else if let Some(folder) = &arguments.from_dir {
        of_folder(folder, asked)?
    } else if let Some(file) = &arguments.from_image_stream_file {
        of_stream(&stream_file(file)?, None, asked)?
    } else if let Some(name) = &arguments.from_image_stream {
        let (namespace, stream) = stream_of_cluster(name, arguments.namespace.as_deref(), cluster).await?;
        of_stream(&stream, Some((&namespace, name)), asked)?
    } else {
        Sourced { inputs: Inputs::default(), folders: None, release: None }
    };
    sourced.inputs.component_versions(&arguments.component_versions, &arguments.component_versions_display_names);
    sourced.inputs.name_images(asked.mappings.all(), &asked.exclude);
    Ok(sourced)
}

async fn of_release(arguments: &Arguments, asked: &Asked, client: &Client, named: &str) -> Result<Sourced, Failure> {
    let release = arguments.registries.read(named, client).await.map_err(|error| refuse(&error))?;
    let info = Info::read(named, &release.files, release.image.as_ref()).map_err(|error| refuse(&error))?;
    let mut inputs = Inputs::of_references(&info.references, &asked.exclude);
    let is_canonical = !asked.is_changed;
    if is_canonical {
        tell(&format!("info: Release built from {} images", inputs.count()));
    } else {
        inputs.from_release(named);
        tell(&format!("info: Found {} images in release", inputs.count()));
    }
    let name = info.references["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let metadata = info.metadata.clone();
    let base_digest = release.image.as_ref().and_then(|image| image.labels().get(BASE_DIGEST).map(|digest| (*digest).to_owned()));
    let (image, files) = (release.image, release.files);
    let before = Before { name, metadata, base_digest, is_canonical, asked: named.to_owned(), image, files };
    Ok(Sourced { inputs, folders: None, release: Some(before) })
}

fn of_folder(folder: &Path, asked: &Asked) -> Result<Sourced, Failure> {
    tell(&format!("info: Using {} as the input to the release", folder.display()));
    let read = folders(folder).map_err(|error| Failure::failed(format!("folder {}", folder.display()), &error))?;
    let mut inputs = match &read.references {
        None => Inputs::default(),
        Some(content) => {
            let files = folder.join(REFERENCES);
            let references = info::references(content).map_err(|error| Failure::failed(format!("file {}", files.display()), &error))?;
            Inputs::of_references(&references, &asked.exclude)
        }
    };
    inputs.note(read.newest);
    let operators: Vec<Operator> = read.operators.into_iter().filter(|operator| !asked.exclude.contains(&operator.name)).collect();
    tell(&format!("info: Found {} operator manifest directories on disk", operators.len()));
    Ok(Sourced { inputs, folders: Some(operators), release: None })
}

fn of_stream(stream: &Value, place: Option<(&str, &str)>, asked: &Asked) -> Result<Sourced, Failure> {
    let inputs = Inputs::of_stream(stream, place, asked.mode, &asked.exclude).map_err(|error| refuse(&error))?;
    tell(&format!("info: Found {} images in image stream", inputs.count()));
    Ok(Sourced { inputs, folders: None, release: None })
}

fn stream_file(file: &Path) -> Result<Value, Failure> {
    let subject = format!("file {}", file.display());
    let text = if file == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(MAX_STREAM).read_to_string(&mut text);
        read.map_err(|error| Failure::failed(&subject, &error))?;
        text
    } else {
        super::extract::read_small(file, MAX_STREAM)?
    };
    mainstay_yaml::parse(&text).map_err(|error| Failure::failed(&subject, &error))
}

/// Reads an image stream of the cluster, and returns its namespace with it.
async fn stream_of_cluster(name: &str, namespace: Option<&str>, cluster: &ClusterArgs) -> Result<(String, Value), Failure> {
    let session = cluster.open().await?;
    let namespace = namespace.map_or_else(|| session.client.default_namespace().to_owned(), str::to_owned);
    let place = ObjectRef {
        api_version: "image.openshift.io/v1".to_owned(),
        kind: "ImageStream".to_owned(),
        namespace: namespace.clone(),
        name: name.to_owned(),
    };
    let found = session.writer.get(&place).await.map_err(|error| refuse(&error))?;
    let stream = found.ok_or_else(|| refuse(&Refused::NoStream(name.to_owned())))?;
    Ok((namespace, stream))
}

/// Looks at the images: which commits they are of, and which manifests they bring.
pub(super) async fn look(arguments: &Arguments, client: &Client, sourced: &mut Sourced) -> Result<Vec<Operator>, Failure> {
    let is_of_folders = sourced.folders.is_some();
    // Of folders, only the digests of images by tag are not known.
    let wanted = |image: &str| !is_of_folders || !image.contains('@');
    let named: Vec<(String, String)> =
        sourced.inputs.images().filter(|(_, image)| wanted(image)).map(|(name, image)| (name.to_owned(), image.to_owned())).collect();
    if sourced.inputs.count() == 0 && !is_of_folders {
        return Err(refuse(&Refused::Usage("no component images defined, unable to build a release payload")));
    }
    let looks = named.into_iter().map(|(name, image)| async move {
        let read = look_at(client, &image).await;
        (name, image, read)
    });
    let looked: Vec<_> = futures::stream::iter(looks).buffered(arguments.registries.max_per_registry.clamp(1, 64)).collect().await;
    let mut operators = sourced.folders.take().unwrap_or_default();
    let (mut problems, keeps_time) = (0, sourced.release.as_ref().is_some_and(|release| release.is_canonical));
    for (name, image, read) in looked {
        let (by_digest, found) = match read {
            Ok(read) => read,
            Err(error) => {
                tell(&format!("error: image {name}: {error}"));
                problems += 1;
                continue;
            }
        };
        if !keeps_time {
            sourced.inputs.note_time(found.image.created());
        }
        if let Some(files) = found.files.filter(|_| !is_of_folders) {
            let (word, shown) =
                if sourced.inputs.is_override(&name) { ("Loading override", &*image) } else { ("Loading", by_digest.digest()) };
            tell(&format!("info: {word} {shown} {name}"));
            operators.push(Operator { name: name.clone(), files });
        }
        sourced.inputs.looked_at(&name, by_digest.image, &found.image.labels());
    }
    if problems > 0 { Err(refuse(&Refused::ImagesNotRead(problems))) } else { Ok(operators) }
}

/// A pull spec by digest.
struct ByDigest {
    image: String,
}

impl ByDigest {
    fn digest(&self) -> &str {
        self.image.split_once('@').map_or("", |(_, digest)| digest)
    }
}

async fn look_at(client: &Client, image: &str) -> Result<(ByDigest, ComponentImage), Refused> {
    let invalid = |error: mainstay_oci::Error| Refused::Unreadable { image: image.to_owned(), cause: mainstay_diagnostics::chain(&error) };
    let reference = client.reference(image).map_err(invalid)?;
    let found = component(client, &reference, &Limits::default()).await.map_err(|error| told(image, &error))?;
    // A release names images by digest; one that the user named by digest keeps its name.
    let image = if reference.digest().is_some() {
        image.to_owned()
    } else {
        let invalid = |error: mainstay_oci::InvalidDigest| Refused::Unreadable { image: image.to_owned(), cause: error.to_string() };
        reference.at(found.image.listed.parse().map_err(invalid)?).to_string()
    };
    Ok((ByDigest { image }, found))
}
