//! A least-recently-used cache bounded by weight. Deterministic, because the simulation counts what is fetched.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    entries: HashMap<K, Entry<V>>,
    by_age: BTreeMap<u64, K>,
    clock: u64,
    weight: usize,
    budget: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    weight: usize,
    used: u64,
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    pub(crate) fn new(budget: usize) -> Self {
        Self { entries: HashMap::new(), by_age: BTreeMap::new(), clock: 0, weight: 0, budget }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.get_mut(key)?;
        self.clock += 1;
        self.by_age.remove(&entry.used);
        entry.used = self.clock;
        self.by_age.insert(self.clock, key.clone());
        Some(entry.value.clone())
    }

    /// A value heavier than the whole budget is not kept.
    pub(crate) fn insert(&mut self, key: K, value: V, weight: usize) {
        if weight > self.budget {
            return;
        }
        self.clock += 1;
        if let Some(old) = self.entries.insert(key.clone(), Entry { value, weight, used: self.clock }) {
            self.by_age.remove(&old.used);
            self.weight -= old.weight;
        }
        self.by_age.insert(self.clock, key);
        self.weight += weight;
        while self.weight > self.budget {
            let Some((_, oldest)) = self.by_age.pop_first() else { break };
            if let Some(entry) = self.entries.remove(&oldest) {
                self.weight -= entry.weight;
            }
        }
    }

    pub(crate) fn weight(&self) -> usize {
        self.weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first_and_the_budget_holds() {
        let mut cache = Cache::new(10);
        for key in 0..5 {
            cache.insert(key, key, 3);
            cache.get(&0);
            assert!(cache.weight() <= 10);
        }
        assert_eq!(cache.get(&0), Some(0), "used all along");
        assert_eq!(cache.get(&1), None);
        assert_eq!(cache.get(&4), Some(4));
        cache.insert(9, 9, 11);
        assert_eq!(cache.get(&9), None, "too heavy");
    }
}
