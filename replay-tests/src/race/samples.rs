use std::time::Duration;

/// Latencies in microseconds.
#[derive(Default)]
pub(super) struct Samples(Vec<u32>);

impl Samples {
    pub(super) fn record(&mut self, elapsed: Duration) {
        self.0.push(u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX));
    }

    pub(super) fn absorb(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn sorted(mut self) -> Sorted {
        self.0.sort_unstable();
        Sorted(self.0)
    }
}

pub(super) struct Sorted(Vec<u32>);

impl Sorted {
    pub(super) fn milliseconds(&self, quantile: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let rank = (last as f64 * quantile).round() as usize;
        self.0.get(rank).map_or(f64::NAN, |micros| f64::from(*micros) / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_read_from_the_sorted_samples() {
        let mut samples = Samples::default();
        for micros in (0..=1000).rev() {
            samples.record(Duration::from_micros(micros));
        }
        let sorted = samples.sorted();
        assert_eq!(sorted.milliseconds(0.5), 0.5);
        assert_eq!(sorted.milliseconds(0.99), 0.99);
        assert_eq!(sorted.milliseconds(1.0), 1.0);
    }

    #[test]
    fn no_samples_have_no_quantiles() {
        assert!(Samples::default().sorted().milliseconds(0.5).is_nan());
    }
}
