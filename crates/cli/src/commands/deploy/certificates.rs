//! Serving certificates of `mainstay deploy`: made again each time, by an authority whose key is not kept.

use mainstay_olm_v1::deployment::{Certificates, Pair, Serving};
use mainstay_terminal::errors::Failure;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

/// The validity of the certificates, in years.
const YEARS: i32 = 1;
const END: &str = "-----END CERTIFICATE-----";

/// Makes an authority and the certificates that it signs for `serving`. The newest of the authorities that are `trusted` so far stays trusted, until
/// the new certificates are in use everywhere.
pub fn make(namespace: &str, serving: &[Serving], trusted: Option<&str>) -> Result<Certificates, Failure> {
    let failed = |error: rcgen::Error| Failure::failed("serving certificates", &error);
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = params("mainstay-deploy", Vec::new()).map_err(failed)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    let authority = params.self_signed(&key).map_err(failed)?;
    let issuer = Issuer::new(params, key);
    let sign = |serving: &Serving| -> Result<(&'static str, Pair), rcgen::Error> {
        let names = serving.names(namespace);
        let key = KeyPair::generate()?;
        let mut params = self::params(names.first().map_or(namespace, String::as_str), names.clone())?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        Ok((serving.secret, (params.signed_by(&key, &issuer)?.pem(), key.serialize_pem())))
    };
    let before = trusted.and_then(|text| text.find(END).map(|at| format!("{}\n", &text[..at + END.len()])));
    Ok(Certificates::Provided {
        authorities: authority.pem() + &before.unwrap_or_default(),
        pairs: serving.iter().map(sign).collect::<Result<_, _>>().map_err(failed)?,
    })
}

fn params(name: &str, names: Vec<String>) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    // A common name has at most 64 characters.
    params.distinguished_name.push(DnType::CommonName, name.chars().take(64).collect::<String>());
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    // Clocks differ: valid since yesterday.
    let from = today.yesterday().unwrap_or(today);
    let date = |date: jiff::civil::Date, years: i32| {
        // The 29th of February does not exist in every year.
        date_time_ymd(i32::from(date.year()) + years, date.month().unsigned_abs(), date.day().unsigned_abs().min(28))
    };
    (params.not_before, params.not_after) = (date(from, 0), date(today, YEARS));
    Ok(params)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    fn made(trusted: Option<&str>) -> (String, Pair) {
        let serving = Serving { secret: "cert", services: vec!["one", "two"] };
        match make("olm", &[serving], trusted).unwrap() {
            Certificates::Provided { authorities, mut pairs } => (authorities, pairs.remove("cert").unwrap()),
            other => panic!("not made: {other:?}"),
        }
    }

    /// OLM1-GEN-05, MS-CLI-04: a pair that can be served; the authority before stays trusted for one more time.
    #[test]
    fn a_new_authority_each_time() {
        let (first, (chain, key)) = made(None);
        mainstay_serve::Certificates::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        let (second, _) = made(Some(&first));
        assert_eq!((first.matches(END).count(), second.matches(END).count()), (1, 2));
        assert!(second.contains(first.trim()));
        let (third, _) = made(Some(&second));
        assert_eq!(third.matches(END).count(), 2);
        assert!(!third.contains(first.trim()));
    }
}
