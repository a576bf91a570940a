//! Which certificate requests of nodes are approved, one rule a step.

use jiff::{SignedDuration, Timestamp};
use mainstay_machine_core::approval::{CLIENT_SIGNER, Request, SERVING_SIGNER, Verdict, is_considered, most_pending, verdict};
use mainstay_machine_core::machine::{Address, Machine};

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

fn created() -> Timestamp {
    "2026-03-10T12:00:00Z".parse().unwrap()
}

fn machine(node: Option<&str>) -> Machine {
    let addresses =
        vec![Address::new("InternalDNS", "Worker-A."), Address::new("InternalIP", "172.31.4.2"), Address::new("Hostname", "worker-a")];
    Machine { name: "worker-a".to_owned(), created: Some(created()), node: node.map(str::to_owned), addresses, ..Machine::default() }
}

fn client() -> Request {
    Request {
        created: Some(created() + SignedDuration::from_secs(60)),
        username: "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper".to_owned(),
        groups: texts(&["system:serviceaccounts:openshift-machine-config-operator", "system:serviceaccounts", "system:authenticated"]),
        signer: CLIENT_SIGNER.to_owned(),
        usages: texts(&["digital signature", "client auth"]),
        common_name: "system:node:worker-a".to_owned(),
        organizations: texts(&["system:nodes"]),
        ..Request::default()
    }
}

fn serving() -> Request {
    Request {
        username: "system:node:worker-a".to_owned(),
        groups: texts(&["system:nodes", "system:authenticated"]),
        signer: SERVING_SIGNER.to_owned(),
        usages: texts(&["key encipherment", "digital signature", "server auth"]),
        dns_names: texts(&["worker-a"]),
        ip_addresses: vec!["172.31.4.2".parse().unwrap()],
        ..client()
    }
}

fn asked(request: &Request, machines: &[Machine]) -> Verdict {
    verdict(request, machines, |_| false, true)
}

/// MACH-CSR-02, MACH-CSR-03, MACH-CSR-06: a first certificate is approved for a machine without a node, near its creation, and for no other requester.
#[test]
fn first_certificates() {
    let machines = [machine(None)];
    assert!(is_considered(&client()));
    assert_eq!(asked(&client(), &machines), Verdict::Approve);
    let legacy = Request { usages: texts(&["key encipherment", "digital signature", "client auth"]), ..client() };
    assert_eq!(asked(&legacy, &machines), Verdict::Approve);
    let left = [
        Request { username: "system:admin".to_owned(), ..client() },
        Request { groups: texts(&["system:authenticated"]), ..client() },
        Request { created: Some(created() - SignedDuration::from_secs(10)), ..client() },
        Request { created: Some(created() + SignedDuration::from_hours(2)), ..client() },
        Request { common_name: "system:node:".to_owned(), ..client() },
        Request { usages: texts(&["digital signature", "client auth", "code signing"]), ..client() },
    ];
    for request in left {
        assert!(matches!(asked(&request, &machines), Verdict::LeaveAlone(_)), "{request:?}");
    }
    assert!(matches!(asked(&client(), &[machine(Some("worker-a"))]), Verdict::LeaveAlone(_)));
    assert!(matches!(verdict(&client(), &machines, |node| node == "worker-a", true), Verdict::LeaveAlone(_)));
    assert!(matches!(verdict(&client(), &machines, |_| false, false), Verdict::Retry(_)));
    let Verdict::Retry(missing) = asked(&client(), &[]) else { panic!("not tried again") };
    assert_eq!(missing.to_string(), "failed to find machine for node worker-a");
}

/// MACH-CSR-04: a serving certificate is approved if every name and address is the machine's.
#[test]
fn serving_certificates() {
    let machines = [machine(Some("worker-a"))];
    assert!(is_considered(&serving()));
    assert_eq!(asked(&serving(), &machines), Verdict::Approve);
    for request in [
        Request { username: "system:admin".to_owned(), ..serving() },
        Request { groups: texts(&["system:nodes"]), ..serving() },
        Request { usages: texts(&["digital signature", "client auth", "server auth"]), ..serving() },
        Request { common_name: "system:node:worker-b".to_owned(), ..serving() },
        Request { organizations: texts(&["others"]), ..serving() },
    ] {
        assert!(matches!(asked(&request, &machines), Verdict::LeaveAlone(_)), "{request:?}");
    }
    let said = |request: Request| match asked(&request, &machines) {
        Verdict::Retry(missing) => missing.to_string(),
        other => panic!("{other:?}"),
    };
    let exhausted = "could not authorize CSR: exhausted all authorization methods: ";
    let names = said(Request { dns_names: texts(&["worker-a", "api.example.com"]), ..serving() });
    assert_eq!(names, format!("{exhausted}DNS name 'api.example.com' not in machine names: Worker-A. worker-a"));
    let addresses = said(Request { ip_addresses: vec!["10.0.0.1".parse().unwrap()], ..serving() });
    assert_eq!(addresses, format!("{exhausted}IP address '10.0.0.1' not in machine addresses: 172.31.4.2"));
    assert!(matches!(asked(&serving(), &[machine(None)]), Verdict::Retry(_)));
}

/// MACH-CSR-05: more may wait than there are machines or nodes, but not many more.
#[test]
fn the_safety_valve() {
    assert_eq!((most_pending(3, 5), most_pending(7, 5)), (105, 107));
}
