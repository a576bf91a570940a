//! Proxies, as Go's `httpproxy` chooses them. The answers lie in `data/http_proxy.tsv`: a line a case, HTTP_PROXY, HTTPS_PROXY, NO_PROXY,
//! whether under CGI, scheme, host, port, and the proxy (`-` none, `!` refused). They were asked of the package that Go 1.26 has in its library,
//! for each host with each rule, and for 3,000 random combinations.
#![allow(clippy::unwrap_used, clippy::panic)]

use mainstay_golang::http_proxy::Proxies;

/// OLM1-GEN-06: loopback, networks, ports, dots and stars as Go has them.
#[test]
fn the_same_proxy_as_in_go() {
    let mut cases = 0;
    for line in include_str!("data/http_proxy.tsv").lines() {
        let [http, https, none, cgi, scheme, host, port, expected] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let proxies = Proxies::new(http, https, &none.replace("\\t", "\t"), cgi == "true");
        let found = match proxies.of(scheme, host, port.parse().ok()) {
            Err(_) => "!",
            Ok(None) => "-",
            Ok(Some(proxy)) => proxy,
        };
        assert_eq!(found, expected, "{line}");
        cases += 1;
    }
    assert!(cases > 8000);
}

/// OLM1-GEN-06: the upper-case variables count before the lower-case ones, and empty ones not at all.
#[test]
fn variables() {
    let of = |variables: &[(&str, &str)]| {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Proxies::from_environment(find).of("https", "a.example", None).map(|proxy| proxy.map(str::to_owned))
    };
    assert_eq!(of(&[("HTTPS_PROXY", "http://upper:1"), ("https_proxy", "http://lower:1")]).unwrap().unwrap(), "http://upper:1");
    assert_eq!(of(&[("HTTPS_PROXY", ""), ("https_proxy", "lower:1")]).unwrap().unwrap(), "http://lower:1");
    assert_eq!(of(&[("HTTPS_PROXY", "p:1"), ("no_proxy", ".example")]), Ok(None));
    assert_eq!(of(&[("HTTP_PROXY", "p:1")]), Ok(None));
    let cgi = Proxies::new("p:1", "p:1", "", true);
    assert!(cgi.of("http", "a.example", None).is_err() && cgi.of("https", "a.example", None).is_ok());
    assert_eq!(cgi.hosts().collect::<Vec<_>>(), ["p", "p"]);
}
