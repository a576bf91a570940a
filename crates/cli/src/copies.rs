//! Copying of one image by digest, between registries and OCI layouts. Which images, under which names, and what is told of them is decided by the
//! callers: mirrors of catalogs and of releases.

use std::collections::BTreeMap;

use mainstay_oci::{Client, Descriptor, Error, Layout, Reference, Tree};

/// Copies an image from one registry to another; false if all of it was there. Blobs that the target can take over by itself are not sent.
///
/// # Errors
/// It cannot be read or written.
pub async fn between_registries(client: &Client, source: &Reference, target: &Reference) -> Result<(Tree, bool), Error> {
    let workspace = client.workspace()?;
    let tree = client.survey(source, workspace.store()).await?;
    let is_new = client.put(&tree, workspace.store(), target, std::slice::from_ref(source)).await?;
    Ok((tree, is_new))
}

/// Copies an image of a layout, `named` so for its user, to a registry; false if it was there.
///
/// # Errors
/// It is not whole, or cannot be written.
pub async fn layout_to_registry(
    client: &Client,
    layout: &Layout,
    named: &str,
    root: &Descriptor,
    target: &Reference,
) -> Result<(Tree, bool), Error> {
    let tree = Tree::read(named, layout.store(), root)?;
    let is_new = !client.holds(target, &root.digest).await? && client.put(&tree, layout.store(), target, &[]).await?;
    Ok((tree, is_new))
}

/// Copies an image of a registry into a layout, which does not list it yet. Blobs that are there are not fetched again, those that were begun are
/// continued.
///
/// # Errors
/// It cannot be read or written.
pub async fn registry_to_layout(client: &Client, source: &Reference, layout: &Layout) -> Result<Tree, Error> {
    let tree = client.survey(source, layout.store()).await?;
    client.fetch(source, &tree, layout.store()).await?;
    Ok(tree)
}

/// An image of a layout without what its list says beside it.
pub fn plain(entry: &Descriptor) -> Descriptor {
    Descriptor { annotations: BTreeMap::new(), ..entry.clone() }
}
