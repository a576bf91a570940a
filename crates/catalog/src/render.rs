//! Rendering of catalogs, for people and for `opm`: deterministic order and spelling (OLM1-BUILD-04, CATLG-10).
//!
//! ```text
//!   files ── first pass ── rows: key, place ── sorted ── second pass ── text
//!            every blob is checked                       read again at its place, on every core
//! ```
//!
//! A catalog in files is read twice: its order is known only at the end, and its text is too long to keep.

use std::borrow::Cow;
use std::io::{self, Write};

use mainstay_golang::sort_slice;
use serde_json::Value;

use crate::blob::Limits;
use crate::blob_text::Written;
use crate::decode::{BundleBlob, ChannelBlob, DeprecationBlob, DeprecationsBlob, EntryBlob, PackageBlob, PropertyBlob, Raw};
use crate::error::LoadError;
use crate::json::write::{Layout, Values, Writer};
use crate::json::{Cursor, Syntax};
use crate::load::{Empty, Repeated, Rules, count_blob, files, read, read_piece};
use crate::model::{BundleName, Catalog, Entry, Property, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE};
use crate::ordered::ordered;
use crate::pieces::{Batch, Form, Pieces};
use crate::source::{Source, SourceFile};
use crate::validate::Fact;

/// Output format of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Objects one after another, four blanks of indent, keys in schema order.
    Json,
    /// Documents that begin with `---`, keys sorted.
    Yaml,
    /// One canonical object a line (OLM1-CAT-07).
    JsonLines,
}

/// Reason why a catalog was not written.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// It cannot be loaded; nothing was written.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The output reports an error.
    #[error("catalog cannot be written: {0}")]
    Write(#[source] io::Error),
}

/// A source of blobs to write.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    /// A catalog in files.
    Source(&'a dyn Source),
    /// A catalog in memory. The values of its properties are written as they are, the order of keys included.
    Catalog(&'a Catalog),
}

/// Writes a catalog: packages by name; in each the package, channels by name, bundles by name, other schemas, deprecations; other blobs
/// without package last.
pub fn render(catalog: &Catalog, format: Format, out: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::new();
    for row in in_order(rows_of(catalog)) {
        text.clear();
        write_blob(&row.blob, Values::Kept, format, &mut text).map_err(invalid)?;
        out.write_all(&text)?;
    }
    Ok(())
}

fn invalid(syntax: Syntax) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, syntax.reason)
}

fn rows_of(catalog: &Catalog) -> Vec<Row<Written<'_>>> {
    let mut rows: Vec<Row<Written<'_>>> = Vec::new();
    for package in &catalog.packages {
        let blob = PackageBlob {
            name: package.name.as_str().into(),
            default_channel: package.default_channel.as_str().into(),
            description: package.description.as_str().into(),
            icon: package.icon.as_ref().map(|icon| (icon.base64data.as_str().into(), icon.mediatype.as_str().into())),
            properties: borrowed(&package.properties),
        };
        rows.push(Row::new(SCHEMA_PACKAGE, "", package.name.as_str(), Written::Package(blob)));
    }
    for channel in &catalog.channels {
        let (package, name) = (channel.package.as_str(), channel.name.as_str());
        let blob = ChannelBlob {
            package: package.into(),
            name: name.into(),
            listed: true,
            entries: channel.entries.iter().map(borrowed_entry).collect(),
            properties: borrowed(&channel.properties),
        };
        rows.push(Row::new(SCHEMA_CHANNEL, package, name, Written::Channel(blob)));
    }
    for bundle in &catalog.bundles {
        let (package, name) = (bundle.package.as_str(), bundle.name.as_str());
        let related = bundle.related_images.iter();
        let blob = BundleBlob {
            package: package.into(),
            name: name.into(),
            image: bundle.image.as_str().into(),
            properties: borrowed(&bundle.properties),
            related_images: related.map(|related| (related.name.as_str().into(), related.image.as_str().into())).collect(),
        };
        rows.push(Row::new(SCHEMA_BUNDLE, package, name, Written::Bundle(blob)));
    }
    for other in &catalog.others {
        rows.push(Row::new(&other.schema, &other.package, &other.name, Written::Other(other.blob.get())));
    }
    for deprecations in &catalog.deprecations {
        let entries = deprecations.entries.iter().map(|entry| DeprecationBlob {
            schema: entry.reference.schema.as_str().into(),
            name: entry.reference.name.as_str().into(),
            message: entry.message.as_str().into(),
        });
        let package = deprecations.package.as_str();
        let blob = DeprecationsBlob { package: package.into(), listed: true, entries: entries.collect() };
        rows.push(Row::new(SCHEMA_DEPRECATIONS, package, "", Written::Deprecations(blob)));
    }
    rows
}

fn borrowed(properties: &[Property]) -> Vec<PropertyBlob<'_>> {
    properties.iter().map(|property| PropertyBlob { kind: property.kind.as_str().into(), value: Raw::from(&*property.value) }).collect()
}

fn borrowed_entry(entry: &Entry) -> EntryBlob<'_> {
    EntryBlob {
        name: entry.name.as_str().into(),
        replaces: entry.replaces.as_ref().map_or("", BundleName::as_str).into(),
        skips: entry.skips.iter().map(|skip| Cow::Borrowed(skip.as_str())).collect(),
        skip_range: entry.skip_range.as_deref().unwrap_or("").into(),
    }
}

/// A blob with the values that decide its place in the output.
#[derive(Debug)]
struct Row<B> {
    package: Box<str>,
    rank: u8,
    /// Name of a channel or bundle; for an unknown blob its schema.
    by: Box<str>,
    blob: B,
}

const CHANNELS: u8 = 1;
const BUNDLES: u8 = 2;
const OTHERS: u8 = 3;

impl<B> Row<B> {
    fn new(schema: &str, package: &str, name: &str, blob: B) -> Self {
        let (package, rank, by) = match schema {
            SCHEMA_PACKAGE => (name, 0, ""),
            SCHEMA_CHANNEL => (package, CHANNELS, name),
            SCHEMA_BUNDLE => (package, BUNDLES, name),
            SCHEMA_DEPRECATIONS => (package, 4, ""),
            // Among those without a package, upstream keeps the order of the files.
            _ => (package, OTHERS, if package.is_empty() { "" } else { schema }),
        };
        Self { package: package.into(), rank, by: by.into(), blob }
    }

    fn with<C>(self, other: impl FnOnce(B) -> C) -> Row<C> {
        Row { package: self.package, rank: self.rank, by: self.by, blob: other(self.blob) }
    }
}

/// Rows in the order of the output; as in upstream, known blobs without a package are left out.
fn in_order<B>(mut rows: Vec<Row<B>>) -> Vec<Row<B>> {
    rows.retain(|row| !row.package.is_empty() || row.rank == OTHERS);
    rows.sort_by(|a, b| (a.package.is_empty(), &a.package, a.rank).cmp(&(b.package.is_empty(), &b.package, b.rank)));
    for group in rows.chunk_by_mut(|a, b| a.package == b.package && a.rank == b.rank) {
        match group.first().map(|row| row.rank) {
            Some(CHANNELS | BUNDLES) => sort_slice(group, |a, b| a.by < b.by),
            Some(OTHERS) => group.sort_by(|a, b| a.by.cmp(&b.by)),
            _ => {}
        }
    }
    rows
}

fn write_blob(blob: &Written<'_>, values: Values, format: Format, out: &mut Vec<u8>) -> Result<(), Syntax> {
    match format {
        Format::Json => blob.write(Layout::Indented, values, out)?,
        Format::Yaml => {
            let mut line = Vec::new();
            blob.write(Layout::Line, values, &mut line)?;
            let value: Value = serde_json::from_slice(&line).map_err(|_| Syntax { at: 0, reason: "number out of range" })?;
            out.extend_from_slice(b"---\n");
            out.extend_from_slice(mainstay_yaml::to_string(&value).as_bytes());
            return Ok(());
        }
        Format::JsonLines => {
            let mut line = Vec::new();
            blob.write(Layout::Line, values, &mut line)?;
            let line = String::from_utf8(line).map_err(|_| Syntax { at: 0, reason: "the text is not UTF-8" })?;
            Writer::new(out, Layout::Line).value(&mut Cursor::new(&line))?;
        }
    }
    out.push(b'\n');
    Ok(())
}

/// Origin of a blob.
enum Origin<'a> {
    File(Spot),
    Memory(Written<'a>),
}

/// Position of a blob in a file.
struct Spot {
    part: usize,
    file: usize,
    line: usize,
    offset: u64,
    length: usize,
    form: Form,
    /// Position of the document in its piece.
    document: usize,
}

/// Writes several catalogs as one, as [`render`] does. Nothing is written before all of them have been checked.
pub fn render_parts(parts: &[Part<'_>], limits: &Limits, format: Format, out: &mut dyn Write) -> Result<(), RenderError> {
    let mut rows = Vec::new();
    let mut paths = Vec::new();
    let mut count = 0;
    for (number, part) in parts.iter().enumerate() {
        match part {
            Part::Source(source) => {
                paths.push(files(*source, limits)?);
                find(*source, number, &paths[number], limits, &mut count, &mut rows)?;
            }
            Part::Catalog(catalog) => {
                paths.push(Vec::new());
                rows.extend(rows_of(catalog).into_iter().map(|row| row.with(Origin::Memory)));
            }
        }
    }
    let rows = in_order(rows);
    let mut rest = rows.as_slice();
    let next = || {
        let mut bytes = 0;
        let in_window = |row: &&Row<Origin<'_>>| {
            let before = bytes;
            bytes += match &row.blob {
                Origin::File(spot) => spot.length,
                Origin::Memory(_) => WINDOW / 64,
            };
            before < WINDOW
        };
        let length = rest.iter().take_while(in_window).count();
        let (window, after) = rest.split_at(length);
        rest = after;
        Ok((!window.is_empty()).then_some(window))
    };
    let work = |window: &[Row<Origin<'_>>]| write_window(window, parts, &paths, limits, format);
    ordered(next, work, |text| out.write_all(&text).map_err(RenderError::Write))
}

/// Bytes of blobs that are written by one thread at a time.
const WINDOW: usize = 256 << 10;

/// The first pass: checks every blob and records its position.
fn find(
    source: &dyn Source,
    number: usize,
    paths: &[String],
    limits: &Limits,
    count: &mut u64,
    rows: &mut Vec<Row<Origin<'_>>>,
) -> Result<(), LoadError> {
    let shared: Vec<std::sync::Arc<str>> = paths.iter().map(|path| path.as_str().into()).collect();
    let repeated = Repeated::default();
    let work = |batch: Batch| {
        let path = &shared[batch.file];
        let mut found: Vec<Row<Spot>> = Vec::with_capacity(batch.pieces.len());
        read(&batch, path, Rules { limits, empty: Empty::Blob, repeated: &repeated }, &mut |blob| {
            Fact::check(&blob, path)?;
            let (offset, length) = blob.place;
            let document = found.iter().rev().take_while(|row| row.blob.offset == offset).count();
            let spot = Spot { part: number, file: batch.file, line: blob.line, offset, length, form: batch.form, document };
            found.push(Row::new(&blob.schema, &blob.package, &blob.name, spot));
            Ok(())
        })?;
        Ok(found)
    };
    let mut pieces = Pieces::new(source, paths, limits);
    ordered(
        || pieces.next(),
        work,
        |found| {
            for row in found {
                count_blob(count, &paths[row.blob.file], row.blob.line, limits)?;
                rows.push(row.with(Origin::File));
            }
            Ok(())
        },
    )
}

/// The second pass: reads blobs again and returns their text.
fn write_window(
    window: &[Row<Origin<'_>>],
    parts: &[Part<'_>],
    paths: &[Vec<String>],
    limits: &Limits,
    format: Format,
) -> Result<Vec<u8>, RenderError> {
    let mut text = Vec::with_capacity(2 * WINDOW);
    let mut bytes = Vec::new();
    let mut open: Option<((usize, usize), Box<dyn SourceFile + '_>)> = None;
    for row in window {
        let spot = match &row.blob {
            Origin::File(spot) => spot,
            Origin::Memory(written) => {
                write_blob(written, Values::Kept, format, &mut text).map_err(|syntax| RenderError::Write(invalid(syntax)))?;
                continue;
            }
        };
        let path = &paths[spot.part][spot.file];
        let wanted = (spot.part, spot.file);
        let file = match (&open, parts[spot.part]) {
            (Some((which, file)), _) if *which == wanted => file,
            (_, Part::Source(source)) => &open.insert((wanted, source.open(path).map_err(LoadError::from)?)).1,
            // Blobs in memory were written above.
            (_, Part::Catalog(_)) => continue,
        };
        read_again(&**file, path, spot, &mut bytes)?;
        let mut document = 0;
        // The first pass has counted the repetitions of all documents.
        let repeated = Repeated::default();
        let rules = Rules { limits, empty: Empty::Blob, repeated: &repeated };
        read_piece(&bytes, (path, spot.line, (spot.offset, spot.length)), spot.form, rules, &mut |blob| {
            document += 1;
            if document != spot.document + 1 {
                return Ok(());
            }
            let written = Written::read(&blob.schema, blob.json, blob.fields).map_err(|shape| blob.shape_error(shape))?;
            write_blob(&written, Values::Canonical, format, &mut text).map_err(|syntax| blob.json_error(syntax))
        })?;
    }
    Ok(text)
}

fn read_again(file: &dyn SourceFile, path: &str, spot: &Spot, bytes: &mut Vec<u8>) -> Result<(), LoadError> {
    let failed = |reason: String| crate::error::SourceError { path: path.to_owned(), reason };
    bytes.clear();
    bytes.resize(spot.length, 0);
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(spot.offset + filled as u64, &mut bytes[filled..]) {
            Ok(0) => return Err(failed("became shorter while it was read".to_owned()).into()),
            Ok(length) => filled += length,
            Err(error) => return Err(failed(error.to_string()).into()),
        }
    }
    Ok(())
}
