//! Metadata: names are set, labels and annotations are merged by key, owners by uid (CVO-APPLY-04).

use serde_json::{Map, Value};

use super::value::{Merge, assign, equal, list, taken};

pub(super) fn merge(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    merge.set_if_given(live, wanted, "namespace");
    merge.set_if_given(live, wanted, "name");
    merge.entries(live, wanted, "labels");
    merge.entries(live, wanted, "annotations");
    owners(merge, live, wanted);
}

fn owners(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    const FIELD: &str = "ownerReferences";
    let mut owners = taken(live, FIELD);
    for wanted in list(wanted, FIELD) {
        match owners.iter_mut().find(|owner| owner["uid"] == wanted["uid"]) {
            Some(owner) if equal(owner, wanted) => {}
            Some(owner) => {
                merge.modified = true;
                *owner = wanted.clone();
            }
            None => {
                merge.modified = true;
                owners.push(wanted.clone());
            }
        }
    }
    assign(live, FIELD, &Value::Array(owners));
}
