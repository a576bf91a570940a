//! Catalog templates, and catalogs that become ones.

use mainstay_catalog::template::{Destination, Kind, RenderError, Rendered, Template, convert};
use mainstay_catalog::{Bundle, Format, Limits, MemorySource, Property, render};
use serde_json::json;

const BASIC: &str = "schema: olm.template.basic\nentries:\n- {schema: olm.package, name: p, defaultChannel: c}\n- {schema: olm.channel, package: p, name: c, entries: [{name: p.v1.0.0}]}\n- {schema: olm.bundle, image: 'p:1.0.0'}\n";
const SEMVER: &str = "schema: olm.semver\ngenerateMajorChannels: true\ndefaultChannelTypePreference: major\nstable:\n  bundles: [{image: 'p:1.0.0'}, {image: 'p:1.1.0'}, {image: 'p:2.0.0-rc.1'}]\nfast:\n  bundles: [{image: 'p:1.0.0'}]\n";
const SUBSTITUTES: &str = "schema: olm.template.substitutes\nentries:\n- {schema: olm.package, name: p, defaultChannel: c}\n- {schema: olm.channel, package: p, name: c, entries: [{name: p.v1.0.0}]}\n- {schema: olm.bundle, package: p, name: p.v1.0.0, image: 'q.io/p:v1', properties: [{type: olm.package, value: {packageName: p, version: 1.0.0}}]}\nsubstitutions: [{name: 'p:1.0.1', base: p.v1.0.0}]\n";

/// A template is refused, or what is compiled of it can be written, and becomes a template again.
pub fn templates(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(template) = Template::parse(text) else { return };
    for kind in Kind::ALL {
        let Ok(catalog) = template.compile(kind, &mut bundle) else { continue };
        let mut written = Vec::new();
        if let Err(error) = render(&catalog, Format::Json, &mut written) {
            panic!("{error}: {text}");
        }
        if written.is_empty() {
            continue;
        }
        let source = MemorySource::of("catalog", written);
        for destination in [Destination::Basic, Destination::Substitutes] {
            match convert(&source, &Limits::default(), destination) {
                Ok(json) => assert!(Template::parse(&json).and_then(|template| template.kind()).is_ok(), "{json}"),
                Err(error) => panic!("{error}: {text}"),
            }
        }
    }
}

/// What a reference `package:version` renders to.
fn bundle(reference: &str) -> Result<Rendered, RenderError> {
    let (package, version) = reference.split_once(':').ok_or("no such image")?;
    let property = Property::new("olm.package", &json!({"packageName": package, "version": version})).map_err(|error| error.to_string())?;
    let bundle = Bundle {
        package: package.into(),
        name: format!("{package}.v{version}").into(),
        image: reference.to_owned(),
        properties: vec![property],
        ..Bundle::default()
    };
    Ok(vec![bundle].into())
}

/// One template of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    [BASIC, SEMVER, SUBSTITUTES].map(|text| text.as_bytes().to_vec()).to_vec()
}
