//! The order in which Go's `sort.Slice` leaves a slice.
//!
//! `sort.Slice` is not stable, but deterministic: upstream's output shows its order of elements that compare equal (channels of one
//! name in different packages, images listed twice). To write the same files, this module takes the same steps: pattern-defeating quicksort
//! with insertion sort for short ranges, heap sort when pivots stay bad, and a shuffle seeded by the length alone.

/// Ranges up to this length are sorted by insertion.
const SHORT: usize = 12;
/// From this length on, the pivot is the median of three medians.
const NINTHER: usize = 50;
/// The number of exchanges in the search for a pivot if the range is descending.
const MOST_EXCHANGES: usize = 12;

/// Sorts as Go's `sort.Slice` does, elements that compare equal included.
pub fn sort_slice<T>(items: &mut [T], less: impl Fn(&T, &T) -> bool) {
    let bits = (usize::BITS - items.len().leading_zeros()) as usize;
    let end = items.len();
    Sort { items, less }.range(0, end, bits);
}

struct Sort<'a, T, L> {
    items: &'a mut [T],
    less: L,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
    Unknown,
}

impl<T, L: Fn(&T, &T) -> bool> Sort<'_, T, L> {
    fn less(&self, i: usize, j: usize) -> bool {
        (self.less)(&self.items[i], &self.items[j])
    }

    fn range(&mut self, mut start: usize, mut end: usize, mut patience: usize) {
        let (mut balanced, mut partitioned) = (true, true);
        loop {
            let length = end - start;
            if length <= SHORT {
                return self.insertion(start, end);
            }
            if patience == 0 {
                return self.heap(start, end);
            }
            if !balanced {
                self.shuffle(start, end);
                patience -= 1;
            }
            let (mut pivot, mut order) = self.pivot(start, end);
            if order == Order::Descending {
                self.items[start..end].reverse();
                pivot = (end - 1) - (pivot - start);
                order = Order::Ascending;
            }
            if balanced && partitioned && order == Order::Ascending && self.nearly_sorted(start, end) {
                return;
            }
            // No element here is less than the one before the range: the pivot's equals are done.
            if start > 0 && !self.less(start - 1, pivot) {
                start = self.partition_equal(start, end, pivot);
                continue;
            }
            let (middle, untouched) = self.partition(start, end, pivot);
            partitioned = untouched;
            let (left, right) = (middle - start, end - middle);
            balanced = left.min(right) >= length / 8;
            if left < right {
                self.range(start, middle, patience);
                start = middle + 1;
            } else {
                self.range(middle + 1, end, patience);
                end = middle;
            }
        }
    }

    fn insertion(&mut self, start: usize, end: usize) {
        for i in start + 1..end {
            self.sink(i, start);
        }
    }

    /// Moves an element towards `floor` while it is less than its left neighbour.
    fn sink(&mut self, from: usize, floor: usize) {
        let mut at = from;
        while at > floor && self.less(at, at - 1) {
            self.items.swap(at, at - 1);
            at -= 1;
        }
    }

    fn heap(&mut self, start: usize, end: usize) {
        let length = end - start;
        for root in (0..=(length - 1) / 2).rev() {
            self.sift(root, length, start);
        }
        for last in (0..length).rev() {
            self.items.swap(start, start + last);
            self.sift(0, last, start);
        }
    }

    fn sift(&mut self, mut root: usize, length: usize, first: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= length {
                return;
            }
            if child + 1 < length && self.less(first + child, first + child + 1) {
                child += 1;
            }
            if !self.less(first + root, first + child) {
                return;
            }
            self.items.swap(first + root, first + child);
            root = child;
        }
    }

    /// Puts the pivot in its place; lesser elements are left of it. Also returns whether nothing else had to move.
    fn partition(&mut self, start: usize, end: usize, pivot: usize) -> (usize, bool) {
        self.items.swap(start, pivot);
        let (mut i, mut j) = (start + 1, end - 1);
        let mut untouched = true;
        loop {
            while i <= j && self.less(i, start) {
                i += 1;
            }
            while i <= j && !self.less(j, start) {
                j -= 1;
            }
            if i > j {
                break;
            }
            untouched = false;
            self.items.swap(i, j);
            i += 1;
            j -= 1;
        }
        self.items.swap(j, start);
        (j, untouched)
    }

    /// Puts the elements that equal the pivot first; returns the position of the first greater one.
    fn partition_equal(&mut self, start: usize, end: usize, pivot: usize) -> usize {
        self.items.swap(start, pivot);
        let (mut i, mut j) = (start + 1, end - 1);
        loop {
            while i <= j && !self.less(start, i) {
                i += 1;
            }
            while i <= j && self.less(start, j) {
                j -= 1;
            }
            if i > j {
                return i;
            }
            self.items.swap(i, j);
            i += 1;
            j -= 1;
        }
    }

    /// Repairs a range with few elements out of order; returns whether it is sorted now.
    fn nearly_sorted(&mut self, start: usize, end: usize) -> bool {
        let mut i = start + 1;
        for _ in 0..5 {
            while i < end && !self.less(i, i - 1) {
                i += 1;
            }
            if i == end {
                return true;
            }
            if end - start < 50 {
                return false;
            }
            self.items.swap(i, i - 1);
            if i - start >= 2 {
                self.sink(i - 1, 0);
            }
            if end - i >= 2 {
                let mut at = i + 1;
                while at < end && self.less(at, at - 1) {
                    self.items.swap(at, at - 1);
                    at += 1;
                }
            }
        }
        false
    }

    fn shuffle(&mut self, start: usize, end: usize) {
        let length = end - start;
        if length < 8 {
            return;
        }
        let mut random = length as u64;
        let mask = (1_u64 << (usize::BITS - length.leading_zeros())) - 1;
        let first = start + (length / 4) * 2 - 1;
        for i in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let mut other = (random & mask) as usize;
            if other >= length {
                other -= length;
            }
            self.items.swap(first + i, start + other);
        }
    }

    fn pivot(&self, start: usize, end: usize) -> (usize, Order) {
        let length = end - start;
        let mut exchanges = 0;
        let (mut i, mut j, mut k) = (start + length / 4, start + length / 4 * 2, start + length / 4 * 3);
        if length >= 8 {
            if length >= NINTHER {
                i = self.median([i - 1, i, i + 1], &mut exchanges);
                j = self.median([j - 1, j, j + 1], &mut exchanges);
                k = self.median([k - 1, k, k + 1], &mut exchanges);
            }
            j = self.median([i, j, k], &mut exchanges);
        }
        match exchanges {
            0 => (j, Order::Ascending),
            MOST_EXCHANGES => (j, Order::Descending),
            _ => (j, Order::Unknown),
        }
    }

    fn median(&self, [mut a, mut b, mut c]: [usize; 3], exchanges: &mut usize) -> usize {
        let mut order = |a: &mut usize, b: &mut usize| {
            if self.less(*b, *a) {
                *exchanges += 1;
                std::mem::swap(a, b);
            }
        };
        order(&mut a, &mut b);
        order(&mut b, &mut c);
        order(&mut a, &mut b);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CATLG-49: the places of equal elements are Go's. The table was made by `sort.Slice` of Go 1.26.8: length, number of different keys, shape
    /// (random, ascending, descending), CRC-32 of the resulting places.
    #[test]
    fn equals_stand_where_go_leaves_them() {
        let table = include_str!("../tests/data/sort.txt");
        assert!(table.lines().count() > 100);
        for line in table.lines() {
            let numbers: Vec<u64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
            let &[length, keys, shape, expected] = numbers.as_slice() else { panic!("{line}") };
            let mut seed = length * 1000 + keys;
            let mut items: Vec<(u64, u32)> = (0..length)
                .map(|at| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let key = match shape {
                        0 => (seed >> 33) % keys,
                        1 => at * keys / length,
                        _ => (length - at) * keys / length,
                    };
                    (key, at as u32)
                })
                .collect();
            sort_slice(&mut items, |a, b| a.0 < b.0);
            let mut sum = crc32fast::Hasher::new();
            for (_, at) in &items {
                sum.update(&at.to_le_bytes());
            }
            assert_eq!(u64::from(sum.finalize()), expected, "{line}");
        }
    }
}
