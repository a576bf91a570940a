//! The labels that a scrape of a component adds.

use std::collections::BTreeSet;

use mainstay_promql::{Labels, NAME, Sample};

/// A component as Prometheus would scrape it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Label `job`: the name of its Service.
    pub job: &'static str,
    /// Label `namespace`.
    pub namespace: &'static str,
    /// Label `endpoint`: the port's name.
    pub endpoint: &'static str,
    /// The names of its metrics.
    pub metrics: BTreeSet<String>,
}

impl Target {
    fn labels(&self) -> [(&'static str, &'static str); 4] {
        [("job", self.job), ("namespace", self.namespace), ("endpoint", self.endpoint), ("service", self.job)]
    }

    /// The sample with the labels of the scrape. A label of the same name is kept as `exported_NAME`.
    fn labelled(&self, mut sample: Sample) -> Sample {
        for (label, value) in self.labels() {
            if let Some(own) = sample.labels.insert(label.to_owned(), value.to_owned()).filter(|own| !own.is_empty()) {
                sample.labels.insert(format!("exported_{label}"), own);
            }
        }
        sample
    }
}

/// Gives each sample the labels of its target and adds `up`. Samples of no target are left out.
pub(crate) fn labelled(targets: &[Target], samples: Vec<Sample>) -> Vec<Sample> {
    let mut all: Vec<Sample> = samples
        .into_iter()
        .filter_map(|sample| {
            let target = targets.iter().find(|target| sample.labels.get(NAME).is_some_and(|name| target.metrics.contains(name)))?;
            Some(target.labelled(sample))
        })
        .collect();
    all.extend(targets.iter().map(|target| {
        let up = Labels::from([(NAME.to_owned(), UP.to_owned())]);
        target.labelled(Sample { labels: up, value: 1.0 })
    }));
    all
}

/// The metric that says that a target answered.
pub(crate) const UP: &str = "up";
