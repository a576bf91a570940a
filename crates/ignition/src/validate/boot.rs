//! Rules of the section `ignition`.

use mainstay_golang::url;

use super::resource;
use crate::data::Struct;
use crate::model::Spec;
use crate::report::{Report, Severity, Trail};
use crate::version::Version;

pub(super) fn version(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    let message = match Version::parse(of.text_or_empty("version")) {
        None => "invalid config version (couldn't parse)",
        // Butane has 3.4 judged by the rules of 3.5.
        Some(version) if spec == Spec::V3_5 && version.is([3, 4, 0]) => return,
        Some(version) if Some(version.clone()) != Version::parse(spec.text()) => "unsupported config version",
        Some(_) => return,
    };
    report.add(Severity::Error, path.then("version"), message);
}

pub(super) fn merged(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    if spec == Spec::V3_0 {
        return;
    }
    for (index, source) in of.structs("merge").enumerate() {
        report.add_error(path.then("merge").then(index), resource::required(source, spec));
    }
}

pub(super) fn authorities(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    if spec == Spec::V3_0 {
        return;
    }
    for (index, source) in of.structs("certificateAuthorities").enumerate() {
        report.add_error(path.then("certificateAuthorities").then(index), resource::required(source, spec));
    }
}

pub(super) fn proxy(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    for (field, may_be_http) in [("httpProxy", true), ("httpsProxy", false)] {
        let Some(text) = of.text(field) else { continue };
        let path = path.then(field);
        match url::parse(text) {
            Err(_) => report.add(Severity::Error, path, "unable to parse url"),
            Ok(url) if url.scheme == "https" => {}
            Ok(url) if url.scheme != "http" => report.add(Severity::Error, path, "proxies must be http(s)"),
            Ok(_) if may_be_http => {}
            Ok(_) => report.add(Severity::Warning, path, "insecure plaintext HTTP proxy specified for HTTPS resources"),
        }
    }
}
