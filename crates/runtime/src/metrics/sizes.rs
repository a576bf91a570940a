//! The sizes of caches (MS-OPS-01): objects of watched kinds, and objects and bytes on disk.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// The size of a cache's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The number of objects.
    pub objects: u64,
    /// The number of bytes, if it is known without counting them each time.
    pub bytes: Option<u64>,
}

/// The labels of a cache: its purpose and its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Labels {
    cache: &'static str,
    kind: String,
}

/// The least number of caches that are added between two removals of ended ones.
const ROOM: usize = 16;

type Measure = Box<dyn Fn() -> Option<Size> + Send + Sync>;

/// The caches of a process.
#[derive(Default)]
pub(super) struct Sizes(Mutex<Vec<(Labels, Measure)>>);

impl fmt::Debug for Sizes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Sizes").finish_non_exhaustive()
    }
}

impl Sizes {
    /// Adds a cache until `measure` returns `None`.
    pub fn show(&self, cache: &'static str, kind: &str, measure: impl Fn() -> Option<Size> + Send + Sync + 'static) {
        let labels = Labels { cache, kind: kind.to_owned() };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Caches that come and go would otherwise pile up on a page that is never read. Measuring may read a disk, so this happens only when the list
        // would have to grow.
        if all.len() == all.capacity() {
            all.retain(|(_, measure)| measure().is_some());
            let more = all.len() + ROOM;
            all.reserve(more);
        }
        all.push((labels, Box::new(measure)));
    }

    /// Sums caches of one kind, of which each component may have its own, in one series.
    fn sums(&self) -> BTreeMap<Labels, Size> {
        let mut sums: BTreeMap<Labels, Size> = BTreeMap::new();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(labels, measure)| {
            let Some(size) = measure() else { return false };
            let sum = sums.entry(labels.clone()).or_default();
            sum.objects = sum.objects.saturating_add(size.objects);
            sum.bytes = size.bytes.map_or(sum.bytes, |bytes| Some(sum.bytes.unwrap_or_default().saturating_add(bytes)));
            true
        });
        sums
    }
}

impl Collector for Sizes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sums = self.sums();
        let gauge = |value: u64| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        let mut objects = encoder.encode_descriptor("mainstay_cache_objects", "Objects in a cache", None, MetricType::Gauge)?;
        for (labels, size) in &sums {
            gauge(size.objects).encode(objects.encode_family(labels)?)?;
        }
        let mut bytes = encoder.encode_descriptor("mainstay_cache_bytes", "Bytes of a cache on disk", None, MetricType::Gauge)?;
        for (labels, size) in &sums {
            if let Some(size) = size.bytes {
                gauge(size).encode(bytes.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{Size, Sizes};
    use crate::metrics::Metrics;

    /// MS-OPS-01: caches of one kind are added up, bytes are shown where they are known, and a cache that is gone is on the page no more.
    #[test]
    fn sizes_of_caches() {
        let metrics = Metrics::default();
        let alive = Arc::new(());
        let held = Arc::downgrade(&alive);
        metrics.show_size("watch", "services", move || held.upgrade().map(|_| Size { objects: 2, bytes: None }));
        metrics.show_size("watch", "services", || Some(Size { objects: 3, bytes: None }));
        metrics.show_size("catalogs", "content", || Some(Size { objects: 1, bytes: Some(7) }));
        let page = metrics.page().unwrap();
        for line in [
            "mainstay_cache_objects{cache=\"watch\",kind=\"services\"} 5\n",
            "mainstay_cache_objects{cache=\"catalogs\",kind=\"content\"} 1\n",
            "mainstay_cache_bytes{cache=\"catalogs\",kind=\"content\"} 7\n",
        ] {
            assert!(page.contains(line), "{line:?} is missing: {page}");
        }
        assert!(!page.contains("mainstay_cache_bytes{cache=\"watch\""), "{page}");
        drop(alive);
        let page = metrics.page().unwrap();
        assert!(page.contains("mainstay_cache_objects{cache=\"watch\",kind=\"services\"} 3\n"), "{page}");
    }

    /// MS-OPS-01: caches that come and go do not pile up where nobody reads the page, and those that stay are seldom measured for that.
    #[test]
    fn nothing_piles_up() {
        let (sizes, measured) = (Sizes::default(), Arc::new(AtomicUsize::new(0)));
        let count = measured.clone();
        sizes.show("images", "bundles", move || {
            count.fetch_add(1, Ordering::Relaxed);
            Some(Size::default())
        });
        for _ in 0..10_000 {
            sizes.show("watch", "services", || None);
        }
        let held = sizes.0.lock().unwrap().len();
        assert!(held < 100, "{held} are held");
        let measured = measured.load(Ordering::Relaxed);
        assert!(measured < 1_000, "measured {measured} times");
        assert_eq!(sizes.sums().len(), 1);
    }
}
