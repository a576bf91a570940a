//! The signatures of all functions: one line an overload, `TARGET@name(ARGUMENTS) RESULT`, single capitals are type parameters.
//!
//! A function that is listed here exists for the type checker; `functions` and `library` say what it does.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::library::authz;
use crate::types::Type;

pub(crate) struct Signature {
    pub(crate) member: bool,
    /// A member's target comes first.
    pub(crate) arguments: Vec<Type>,
    pub(crate) result: Type,
}

/// The overloads of a name; none means that there is no such function.
pub(crate) fn overloads(name: &str) -> &'static [Signature] {
    static TABLE: OnceLock<HashMap<&'static str, Vec<Signature>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table: HashMap<&'static str, Vec<Signature>> = HashMap::new();
        for line in SIGNATURES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (name, signature) = parse(line);
            table.entry(name).or_default().push(signature);
        }
        table
    });
    table.get(name).map_or(&[], Vec::as_slice)
}

fn parse(line: &'static str) -> (&'static str, Signature) {
    let (head, rest) = line.split_once('(').unwrap_or((line, ") dyn"));
    let (arguments, result) = rest.rsplit_once(") ").unwrap_or((rest, "dyn"));
    let (target, name) = match head.split_once('@') {
        Some((target, name)) if !target.is_empty() => (Some(target), name),
        _ => (None, head),
    };
    let arguments = target.into_iter().chain(split(arguments)).map(type_of).collect();
    (name, Signature { member: target.is_some(), arguments, result: type_of(result) })
}

fn split(text: &'static str) -> Vec<&'static str> {
    let mut out = Vec::new();
    let (mut start, mut depth) = (0, 0);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b',' if depth == 0 => {
                out.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        out.push(text[start..].trim());
    }
    out
}

fn type_of(text: &'static str) -> Type {
    let text = text.trim();
    if let Some((outer, inner)) = text.strip_suffix(']').and_then(|text| text.split_once('[')) {
        let inner: Vec<Arc<Type>> = split(inner).into_iter().map(|inner| Arc::new(type_of(inner))).collect();
        return match (outer, &inner[..]) {
            ("list", [items]) => Type::List(items.clone()),
            ("map", [keys, values]) => Type::Map(keys.clone(), values.clone()),
            ("optional", [inner]) => Type::Optional(inner.clone()),
            _ => Type::Dyn,
        };
    }
    match text {
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "type" => Type::Type,
        "url" => Type::Library("kubernetes.URL"),
        "ip" => Type::Library("net.IP"),
        "cidr" => Type::Library("net.CIDR"),
        "quantity" => Type::Library("kubernetes.Quantity"),
        "semver" => Type::Library("kubernetes.Semver"),
        "format" => Type::Library("kubernetes.NamedFormat"),
        "authorizer" => Type::Library(authz::AUTHORIZER),
        "path" => Type::Library(authz::PATH_CHECK),
        "group" => Type::Library(authz::GROUP_CHECK),
        "resource" => Type::Library(authz::RESOURCE_CHECK),
        "decision" => Type::Library(authz::DECISION),
        one if one.len() == 1 => Type::Parameter(one.chars().next().unwrap_or('A')),
        _ => Type::Dyn,
    }
}

const SIGNATURES: &str = "
    _==_(A, A) bool
    _!=_(A, A) bool
    !_(bool) bool
    -_(int) int
    -_(double) double
    _+_(int, int) int
    _+_(uint, uint) uint
    _+_(double, double) double
    _+_(string, string) string
    _+_(bytes, bytes) bytes
    _+_(list[A], list[A]) list[A]
    _+_(timestamp, duration) timestamp
    _+_(duration, timestamp) timestamp
    _+_(duration, duration) duration
    _-_(int, int) int
    _-_(uint, uint) uint
    _-_(double, double) double
    _-_(timestamp, timestamp) duration
    _-_(timestamp, duration) timestamp
    _-_(duration, duration) duration
    _*_(int, int) int
    _*_(uint, uint) uint
    _*_(double, double) double
    _/_(int, int) int
    _/_(uint, uint) uint
    _/_(double, double) double
    _%_(int, int) int
    _%_(uint, uint) uint
    _[_](list[A], int) A
    _[_](map[A, B], A) B
    _[?_](list[A], int) optional[A]
    _[?_](map[A, B], A) optional[B]
    _[?_](optional[list[A]], int) optional[A]
    _[?_](optional[map[A, B]], A) optional[B]
    _[_](optional[list[A]], int) optional[A]
    _[_](optional[map[A, B]], A) optional[B]
    @in(A, list[A]) bool
    @in(A, map[A, B]) bool
    size(string) int
    size(bytes) int
    size(list[A]) int
    size(map[A, B]) int
    string@size() int
    bytes@size() int
    list[A]@size() int
    map[A, B]@size() int
    bool(bool) bool
    bool(string) bool
    int(int) int
    int(uint) int
    int(double) int
    int(string) int
    int(timestamp) int
    uint(uint) uint
    uint(int) uint
    uint(double) uint
    uint(string) uint
    double(double) double
    double(int) double
    double(uint) double
    double(string) double
    string(string) string
    string(bool) string
    string(int) string
    string(uint) string
    string(double) string
    string(bytes) string
    string(timestamp) string
    string(duration) string
    string(ip) string
    string(cidr) string
    bytes(bytes) bytes
    bytes(string) bytes
    timestamp(timestamp) timestamp
    timestamp(string) timestamp
    timestamp(int) timestamp
    duration(duration) duration
    duration(string) duration
    duration(int) duration
    type(A) type
    dyn(A) dyn
    string@startsWith(string) bool
    string@endsWith(string) bool
    string@contains(string) bool
    string@matches(string) bool
    matches(string, string) bool
    timestamp@getFullYear() int
    timestamp@getFullYear(string) int
    timestamp@getMonth() int
    timestamp@getMonth(string) int
    timestamp@getDayOfYear() int
    timestamp@getDayOfYear(string) int
    timestamp@getDayOfMonth() int
    timestamp@getDayOfMonth(string) int
    timestamp@getDate() int
    timestamp@getDate(string) int
    timestamp@getDayOfWeek() int
    timestamp@getDayOfWeek(string) int
    timestamp@getHours() int
    timestamp@getHours(string) int
    timestamp@getMinutes() int
    timestamp@getMinutes(string) int
    timestamp@getSeconds() int
    timestamp@getSeconds(string) int
    timestamp@getMilliseconds() int
    timestamp@getMilliseconds(string) int
    duration@getHours() int
    duration@getMinutes() int
    duration@getSeconds() int
    duration@getMilliseconds() int
    string@charAt(int) string
    string@indexOf(string) int
    string@indexOf(string, int) int
    string@lastIndexOf(string) int
    string@lastIndexOf(string, int) int
    string@lowerAscii() string
    string@upperAscii() string
    string@replace(string, string) string
    string@replace(string, string, int) string
    string@split(string) list[string]
    string@split(string, int) list[string]
    string@substring(int) string
    string@substring(int, int) string
    string@trim() string
    string@format(list[dyn]) string
    list[string]@join() string
    list[string]@join(string) string
    strings.quote(string) string
    string@find(string) string
    string@findAll(string) list[string]
    string@findAll(string, int) list[string]
    list[int]@isSorted() bool
    list[uint]@isSorted() bool
    list[double]@isSorted() bool
    list[bool]@isSorted() bool
    list[string]@isSorted() bool
    list[bytes]@isSorted() bool
    list[timestamp]@isSorted() bool
    list[duration]@isSorted() bool
    list[int]@sum() int
    list[uint]@sum() uint
    list[double]@sum() double
    list[duration]@sum() duration
    list[int]@min() int
    list[uint]@min() uint
    list[double]@min() double
    list[bool]@min() bool
    list[string]@min() string
    list[bytes]@min() bytes
    list[timestamp]@min() timestamp
    list[duration]@min() duration
    list[int]@max() int
    list[uint]@max() uint
    list[double]@max() double
    list[bool]@max() bool
    list[string]@max() string
    list[bytes]@max() bytes
    list[timestamp]@max() timestamp
    list[duration]@max() duration
    list[A]@indexOf(A) int
    list[A]@lastIndexOf(A) int
    list[A]@slice(int, int) list[A]
    list[list[A]]@flatten() list[A]
    list[dyn]@flatten() list[dyn]
    list[dyn]@flatten(int) list[dyn]
    list[A]@distinct() list[A]
    list[A]@reverse() list[A]
    list[A]@first() optional[A]
    list[A]@last() optional[A]
    list[int]@sort() list[int]
    list[uint]@sort() list[uint]
    list[double]@sort() list[double]
    list[bool]@sort() list[bool]
    list[string]@sort() list[string]
    list[bytes]@sort() list[bytes]
    list[timestamp]@sort() list[timestamp]
    list[duration]@sort() list[duration]
    lists.range(int) list[int]
    sets.contains(list[A], list[A]) bool
    sets.equivalent(list[A], list[A]) bool
    sets.intersects(list[A], list[A]) bool
    optional.of(A) optional[A]
    optional.ofNonZeroValue(A) optional[A]
    optional.none() optional[A]
    optional[A]@hasValue() bool
    optional[A]@value() A
    optional[A]@or(optional[A]) optional[A]
    optional[A]@orValue(A) A
    url(string) url
    isURL(string) bool
    url@getScheme() string
    url@getHost() string
    url@getHostname() string
    url@getPort() string
    url@getEscapedPath() string
    url@getQuery() map[string, list[string]]
    ip(string) ip
    isIP(string) bool
    ip.isCanonical(string) bool
    ip@family() int
    ip@isUnspecified() bool
    ip@isLoopback() bool
    ip@isLinkLocalMulticast() bool
    ip@isLinkLocalUnicast() bool
    ip@isGlobalUnicast() bool
    cidr(string) cidr
    isCIDR(string) bool
    cidr@containsIP(string) bool
    cidr@containsIP(ip) bool
    cidr@containsCIDR(string) bool
    cidr@containsCIDR(cidr) bool
    cidr@ip() ip
    cidr@prefixLength() int
    cidr@masked() cidr
    quantity(string) quantity
    isQuantity(string) bool
    sign(quantity) int
    quantity@isGreaterThan(quantity) bool
    quantity@isLessThan(quantity) bool
    quantity@compareTo(quantity) int
    quantity@asApproximateFloat() double
    quantity@asInteger() int
    quantity@isInteger() bool
    quantity@add(quantity) quantity
    quantity@add(int) quantity
    quantity@sub(quantity) quantity
    quantity@sub(int) quantity
    semver(string) semver
    semver(string, bool) semver
    isSemver(string) bool
    isSemver(string, bool) bool
    @semver_compare(dyn, dyn) int
    semver@isGreaterThan(semver) bool
    semver@isLessThan(semver) bool
    semver@compareTo(semver) int
    semver@major() int
    semver@minor() int
    semver@patch() int
    format.named(string) optional[format]
    format@validate(string) optional[list[string]]
    format.dns1123Label() format
    format.dns1123Subdomain() format
    format.dns1035Label() format
    format.qualifiedName() format
    format.dns1123LabelPrefix() format
    format.dns1123SubdomainPrefix() format
    format.dns1035LabelPrefix() format
    format.labelValue() format
    format.uri() format
    format.uuid() format
    format.byte() format
    format.date() format
    format.datetime() format
    authorizer@path(string) path
    authorizer@group(string) group
    authorizer@serviceAccount(string, string) authorizer
    path@check(string) decision
    group@resource(string) resource
    resource@subresource(string) resource
    resource@namespace(string) resource
    resource@name(string) resource
    resource@fieldSelector(string) resource
    resource@labelSelector(string) resource
    resource@check(string) decision
    decision@allowed() bool
    decision@reason() string
    decision@errored() bool
    decision@error() string
    _<_(bool, bool) bool
    _<_(int, int) bool
    _<_(int, uint) bool
    _<_(int, double) bool
    _<_(uint, uint) bool
    _<_(uint, int) bool
    _<_(uint, double) bool
    _<_(double, double) bool
    _<_(double, int) bool
    _<_(double, uint) bool
    _<_(string, string) bool
    _<_(bytes, bytes) bool
    _<_(timestamp, timestamp) bool
    _<_(duration, duration) bool
";

/// The four comparisons share their overloads.
pub(crate) fn comparison(name: &str) -> &str {
    match name {
        "_<=_" | "_>_" | "_>=_" => "_<_",
        other => other,
    }
}
