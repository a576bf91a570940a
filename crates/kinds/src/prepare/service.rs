//! Services: addresses and node ports.
//!
//! Kubernetes keeps what was allocated when an update does not mention it, and allocates after validation.
//! The pools belong to the server: they come in through [`Allocator`].

use mainstay_schema::field::{Error, Path};
use serde_json::{Value, json};

use super::{Object, entry, put};

/// The reason why a pool gives nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocationError {
    /// The wanted address or port does not belong to the pool; for ports, the pool's range (`30000-32767`).
    #[error("not in the range of this pool ({0})")]
    OutOfRange(String),
    /// The address or port is taken.
    #[error("already allocated")]
    Taken,
    /// Nothing is left.
    #[error("the pool is exhausted")]
    Full,
}

/// The server's pools of cluster addresses and node ports.
pub trait Allocator {
    /// Takes the wanted address, or any.
    fn cluster_ip(&mut self, wanted: Option<&str>) -> Result<String, AllocationError>;
    /// Takes the wanted node port, or any.
    fn node_port(&mut self, wanted: Option<u16>) -> Result<u16, AllocationError>;
}

fn text<'a>(spec: &'a Object, field: &str) -> &'a str {
    spec.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(spec: &'a Object, field: &str) -> &'a [Value] {
    spec.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn has_cluster_ip(spec: &Object) -> bool {
    text(spec, "type") != "ExternalName"
}

fn has_node_ports(spec: &Object) -> bool {
    match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec.get("allocateLoadBalancerNodePorts") != Some(&json!(false)),
        _ => false,
    }
}

fn has_health_check(spec: &Object) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

pub(super) fn create(map: &mut Object) {
    let spec = entry(map, "spec");
    let address = text(spec, "clusterIP").to_owned();
    if !address.is_empty() && list(spec, "clusterIPs").is_empty() {
        spec.insert("clusterIPs".into(), json!([address]));
    }
    families_policy(spec, &Object::new());
}

/// Sets the number of families of a Service that does not say it: as many as before, or one; without pods and address of its own, two.
fn families_policy(spec: &mut Object, old: &Object) {
    if text(spec, "type") == "ExternalName" || spec.contains_key("ipFamilyPolicy") {
        return;
    }
    let policy = match old.get("ipFamilyPolicy") {
        Some(policy) => policy.clone(),
        None if is_free(spec) => json!("RequireDualStack"),
        None => json!("SingleStack"),
    };
    spec.insert("ipFamilyPolicy".into(), policy);
}

/// Returns true if a Service has neither an address nor pods: the manager of its endpoints decides about families.
fn is_free(spec: &Object) -> bool {
    text(spec, "clusterIP") == "None" && spec.get("selector").and_then(Value::as_object).is_none_or(Object::is_empty)
}

pub(super) fn update(new: &mut Object, old: &Object) {
    let empty = Object::new();
    let old = old.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let new = entry(new, "spec");
    drop_dependent_fields(new, old);
    keep_allocated(new, old);
    // A client that changed only one of clusterIP and clusterIPs meant both.
    if text(new, "clusterIP") != text(old, "clusterIP") {
        if list(new, "clusterIPs").is_empty() || new.get("clusterIPs") == old.get("clusterIPs") {
            let address = text(new, "clusterIP").to_owned();
            if address.is_empty() {
                new.remove("clusterIPs");
            } else if let Some(Value::Array(addresses)) = new.get_mut("clusterIPs")
                && let Some(first) = addresses.first_mut()
            {
                *first = json!(address);
            } else {
                new.insert("clusterIPs".into(), json!([address]));
            }
        }
    } else if list(new, "clusterIPs").is_empty() && !list(old, "clusterIPs").is_empty() {
        new.remove("clusterIP");
    }
    families_policy(new, old);
}

/// Removes fields that a change of type makes meaningless, unless the user set them again.
fn drop_dependent_fields(new: &mut Object, old: &Object) {
    let same = |new: &Object, field: &str| new.get(field) == old.get(field);
    if has_cluster_ip(old) && !has_cluster_ip(new) && same(new, "clusterIP") && same(new, "clusterIPs") {
        for field in ["clusterIP", "clusterIPs"] {
            new.remove(field);
        }
        if same(new, "ipFamilies") {
            new.remove("ipFamilies");
        }
        if same(new, "ipFamilyPolicy") {
            new.remove("ipFamilyPolicy");
        }
    }
    if has_node_ports(old)
        && !has_node_ports(new)
        && node_ports(new) == node_ports(old)
        && let Some(Value::Array(ports)) = new.get_mut("ports")
    {
        ports.iter_mut().filter_map(Value::as_object_mut).for_each(|port| {
            port.remove("nodePort");
        });
    }
    if has_health_check(old) && !has_health_check(new) && same(new, "healthCheckNodePort") {
        new.remove("healthCheckNodePort");
    }
    let load_balancer = |spec: &Object| text(spec, "type") == "LoadBalancer";
    if load_balancer(old) && !load_balancer(new) {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(new, field) {
                new.remove(field);
            }
        }
    }
    let external = |spec: &Object| match text(spec, "type") {
        "NodePort" | "LoadBalancer" => true,
        kind => kind == "ClusterIP" && !list(spec, "externalIPs").is_empty(),
    };
    if external(old) && !external(new) && same(new, "externalTrafficPolicy") {
        new.remove("externalTrafficPolicy");
    }
    if text(new, "type") == "ExternalName" && same(new, "internalTrafficPolicy") {
        new.remove("internalTrafficPolicy");
    }
}

fn node_ports(spec: &Object) -> Vec<i64> {
    list(spec, "ports").iter().map(|port| port.get("nodePort").and_then(Value::as_i64).unwrap_or(0)).collect()
}

/// Addresses and ports that an update does not mention are those that were allocated.
fn keep_allocated(new: &mut Object, old: &Object) {
    if has_cluster_ip(old) && has_cluster_ip(new) {
        if text(new, "clusterIP").is_empty() {
            put(new, "clusterIP", old.get("clusterIP").cloned());
        }
        if list(new, "clusterIPs").is_empty() && text(new, "clusterIP") == text(old, "clusterIP") {
            put(new, "clusterIPs", old.get("clusterIPs").cloned());
        }
    }
    if has_node_ports(old) && has_node_ports(new) {
        let mut used: Vec<(i64, Value)> = list(new, "ports")
            .iter()
            .filter_map(|port| Some((port.get("nodePort")?.as_i64()?, port.get("protocol").cloned().unwrap_or(Value::Null))))
            .collect();
        let key = |port: &Object| (port.get("protocol").cloned(), port.get("port").cloned());
        let before: Vec<&Object> = list(old, "ports").iter().filter_map(Value::as_object).collect();
        if let Some(Value::Array(ports)) = new.get_mut("ports") {
            for port in ports.iter_mut().filter_map(Value::as_object_mut).filter(|port| !port.contains_key("nodePort")) {
                let known =
                    before.iter().find(|known| key(known) == key(port)).and_then(|known| known.get("nodePort")).and_then(Value::as_i64);
                let protocol = port.get("protocol").cloned().unwrap_or(Value::Null);
                if let Some(known) = known
                    && !used.contains(&(known, protocol.clone()))
                {
                    port.insert("nodePort".into(), json!(known));
                    used.push((known, protocol));
                }
            }
        }
    }
    if has_health_check(old) && has_health_check(new) && !new.contains_key("healthCheckNodePort") {
        put(new, "healthCheckNodePort", old.get("healthCheckNodePort").cloned());
    }
}

/// Gives a valid Service its addresses and node ports, after validation (KAPI-REST-07). On failure nothing that was taken is given back:
/// the caller drops its transaction.
pub fn allocate_service(new: &mut Value, old: Option<&Value>, pools: &mut dyn Allocator) -> Result<(), Vec<Error>> {
    let Value::Object(map) = new else { return Ok(()) };
    let spec = entry(map, "spec");
    let empty = Object::new();
    let old = old.and_then(|old| old.get("spec")).and_then(Value::as_object).unwrap_or(&empty);
    let path = Path::new("spec");
    if !has_cluster_ip(spec) {
        return Ok(());
    }
    families(spec);
    if text(spec, "clusterIP") != "None" {
        let wanted: Vec<String> = list(spec, "clusterIPs").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let known = list(old, "clusterIPs");
        let mut addresses = Vec::new();
        let refused = |address: &str, error: &AllocationError| {
            let words = match error {
                AllocationError::OutOfRange(_) => "the provided network does not match the current range",
                AllocationError::Taken => "provided IP is already allocated",
                AllocationError::Full => "range is full",
            };
            let detail = if address.is_empty() {
                format!("failed to allocate a serviceIP: {words}")
            } else {
                format!("failed to allocate IP {address}: {words}")
            };
            vec![Error::invalid(&path.child("clusterIPs"), json!(wanted), detail)]
        };
        for address in &wanted {
            if known.iter().any(|known| known.as_str() == Some(address)) {
                addresses.push(address.clone());
                continue;
            }
            addresses.push(pools.cluster_ip(Some(address)).map_err(|error| refused(address, &error))?);
        }
        if addresses.is_empty() {
            addresses.push(pools.cluster_ip(None).map_err(|error| refused("", &error))?);
        }
        spec.insert("clusterIP".into(), json!(addresses[0]));
        spec.insert("clusterIPs".into(), json!(addresses));
    }
    if has_node_ports(spec) {
        allocate_ports(spec, old, pools)?;
    }
    if has_health_check(spec) {
        let wanted = spec.get("healthCheckNodePort").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
        if wanted.is_none() || spec.get("healthCheckNodePort") != old.get("healthCheckNodePort") {
            let port = pools.node_port(wanted).map_err(|error| vec![port_refused(&path.child("healthCheckNodePort"), wanted, &error)])?;
            spec.insert("healthCheckNodePort".into(), json!(port));
        }
    }
    Ok(())
}

/// Sets the families of a Service: that of its address, or IPv4; both if only the policy decides.
fn families(spec: &mut Object) {
    families_policy(spec, &Object::new());
    let first = list(spec, "clusterIPs").first().and_then(Value::as_str).unwrap_or_default();
    let family = if first.contains(':') { "IPv6" } else { "IPv4" };
    if list(spec, "ipFamilies").is_empty() {
        spec.insert("ipFamilies".into(), json!([family]));
    }
    if is_free(spec) && text(spec, "ipFamilyPolicy") != "SingleStack" && list(spec, "ipFamilies").len() == 1 {
        let other = if list(spec, "ipFamilies")[0] == "IPv4" { "IPv6" } else { "IPv4" };
        let both = json!([list(spec, "ipFamilies")[0], other]);
        spec.insert("ipFamilies".into(), both);
    }
}

fn allocate_ports(spec: &mut Object, old: &Object, pools: &mut dyn Allocator) -> Result<(), Vec<Error>> {
    let mut held: Vec<(u16, String)> = Vec::new();
    let before = node_ports(old);
    let Some(Value::Array(ports)) = spec.get_mut("ports") else { return Ok(()) };
    // Chosen ports first, so that none of them is given to another port of the same Service.
    for chosen in [true, false] {
        for (index, port) in ports.iter_mut().enumerate() {
            let Some(port) = port.as_object_mut() else { continue };
            let wanted = port.get("nodePort").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
            if wanted.is_some() != chosen {
                continue;
            }
            let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP").to_owned();
            let path = Path::new("spec").child("ports").index(index).child("nodePort");
            if let Some(number) = wanted {
                let mine = held.iter().filter(|(port, _)| *port == number).map(|(_, protocol)| protocol.as_str()).collect::<Vec<_>>();
                if mine.contains(&protocol.as_str()) {
                    return Err(vec![port_refused(&path, wanted, &AllocationError::Taken)]);
                }
                if mine.is_empty() && !before.contains(&i64::from(number)) {
                    pools.node_port(wanted).map_err(|error| vec![port_refused(&path, wanted, &error)])?;
                }
                held.push((number, protocol));
                continue;
            }
            // The same port of another protocol shares its node port.
            let number = pools.node_port(None).map_err(|error| vec![port_refused(&path, None, &error)])?;
            port.insert("nodePort".into(), json!(number));
            held.push((number, protocol));
        }
    }
    Ok(())
}

fn port_refused(path: &Path, wanted: Option<u16>, error: &AllocationError) -> Error {
    match (error, wanted) {
        (AllocationError::OutOfRange(range), Some(port)) => {
            Error::invalid(path, i64::from(port), format!("provided port is not in the valid range. The range of valid ports is {range}"))
        }
        (AllocationError::Taken, Some(port)) => Error::invalid(path, i64::from(port), "provided port is already allocated"),
        _ => Error::internal(path, "failed to allocate a nodePort: range is full"),
    }
}

/// The addresses and node ports that `old` held and `new` (none: deleted) does not: the server gives them back to its pools.
pub fn released_by_service(old: &Value, new: Option<&Value>) -> (Vec<String>, Vec<u16>) {
    let held = |service: Option<&Value>| -> (Vec<String>, Vec<u16>) {
        let Some(Value::Object(spec)) = service.and_then(|service| service.get("spec")) else { return (Vec::new(), Vec::new()) };
        let addresses =
            list(spec, "clusterIPs").iter().filter_map(Value::as_str).filter(|address| *address != "None").map(str::to_owned).collect();
        let health = spec.get("healthCheckNodePort").and_then(Value::as_i64);
        let ports =
            node_ports(spec).into_iter().chain(health).filter_map(|port| u16::try_from(port).ok()).filter(|port| *port != 0).collect();
        (addresses, ports)
    };
    let (mut addresses, mut ports) = held(Some(old));
    let (kept_addresses, kept_ports) = held(new);
    addresses.retain(|address| !kept_addresses.contains(address));
    ports.retain(|port| !kept_ports.contains(port));
    ports.sort_unstable();
    ports.dedup();
    (addresses, ports)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    struct Pools {
        next: u16,
        taken: Vec<u16>,
    }

    impl Allocator for Pools {
        fn cluster_ip(&mut self, wanted: Option<&str>) -> Result<String, AllocationError> {
            match wanted {
                Some(address) if !address.starts_with("10.96.") => Err(AllocationError::OutOfRange("10.96.0.0/16".into())),
                Some(address) => Ok(address.to_owned()),
                None => Ok("10.96.0.9".into()),
            }
        }

        fn node_port(&mut self, wanted: Option<u16>) -> Result<u16, AllocationError> {
            let port = wanted.unwrap_or(self.next);
            if !(30000..=32767).contains(&port) {
                return Err(AllocationError::OutOfRange("30000-32767".into()));
            }
            if self.taken.contains(&port) {
                return Err(AllocationError::Taken);
            }
            self.taken.push(port);
            self.next += u16::from(wanted.is_none());
            Ok(port)
        }
    }

    fn pools() -> Pools {
        Pools { next: 30000, taken: Vec::new() }
    }

    /// KAPI-REST-07: addresses and node ports are allocated, and refused with Kubernetes' words.
    #[test]
    fn allocation() {
        let mut service = json!({"spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": [
            {"port": 80, "protocol": "TCP", "nodePort": 32112}, {"port": 80, "protocol": "UDP", "nodePort": 32112}, {"port": 81, "protocol": "TCP"}]}});
        allocate_service(&mut service, None, &mut pools()).unwrap();
        assert_eq!(service["spec"]["clusterIPs"], json!(["10.96.0.9"]));
        assert_eq!(service["spec"]["ports"][2]["nodePort"], 30000);
        assert_eq!(released_by_service(&service, None), (vec!["10.96.0.9".into()], vec![30000, 32112]));

        let refuse = |spec: Value| allocate_service(&mut json!({"spec": spec}), None, &mut pools()).unwrap_err()[0].to_string();
        assert_eq!(
            refuse(json!({"clusterIPs": ["192.0.2.1"]})),
            "spec.clusterIPs: Invalid value: [\"192.0.2.1\"]: failed to allocate IP 192.0.2.1: the provided network does not match the current range"
        );
        assert_eq!(
            refuse(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 1234}]})),
            "spec.ports[0].nodePort: Invalid value: 1234: provided port is not in the valid range. The range of valid ports is 30000-32767"
        );
        assert_eq!(
            refuse(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 32112}, {"port": 81, "nodePort": 32112}]})),
            "spec.ports[1].nodePort: Invalid value: 32112: provided port is already allocated"
        );
    }

    /// KAPI-REST-07: an update that does not mention what was allocated keeps it.
    #[test]
    fn updates_keep_what_was_allocated() {
        let old = json!({"spec": {"type": "NodePort", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}]}});
        let mut new = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}});
        update(new.as_object_mut().unwrap(), old.as_object().unwrap());
        assert_eq!(new, old);
        let mut new = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}]}});
        update(new.as_object_mut().unwrap(), old.as_object().unwrap());
        assert_eq!(new["spec"]["ports"], json!([{"port": 80, "protocol": "TCP"}]));
        let mut new = json!({"spec": {"type": "ExternalName", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "externalName": "x"}});
        update(new.as_object_mut().unwrap(), old.as_object().unwrap());
        assert!(new["spec"].get("clusterIP").is_none());
    }
}
