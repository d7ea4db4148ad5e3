//! Between what a measure lies, at 95 %.

const Z: f64 = 1.96;
const RESAMPLES: usize = 2_000;
/// Fixed, so that the same answers are told with the same intervals.
const SEED: u64 = 0x5eed;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A share, by Wilson.
pub(super) fn share(hits: u64, of: u64) -> Estimate {
    let n = of.max(1) as f64;
    let value = hits as f64 / n;
    let middle = (value + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let width = Z * (value * (1.0 - value) / n + Z * Z / (4.0 * n * n)).sqrt() / (1.0 + Z * Z / n);
    Estimate { value, low: (middle - width).clamp(0.0, value), high: (middle + width).clamp(value, 1.0) }
}

/// A mean, by drawing as many of the numbers again and again.
pub(super) fn mean(numbers: &[f64]) -> Estimate {
    let count = numbers.len();
    if count == 0 {
        return Estimate { value: 0.0, low: 0.0, high: 0.0 };
    }
    let mut draws = Draws(SEED);
    let mut means: Vec<f64> = Vec::new();
    for _ in 0..RESAMPLES {
        let sum: f64 = (0..count).map(|_| numbers[draws.below(count)]).sum();
        means.push(sum / count as f64);
    }
    means.sort_by(f64::total_cmp);
    let at = |part: f64| means[((RESAMPLES - 1) as f64 * part).round() as usize];
    Estimate { value: numbers.iter().sum::<f64>() / count as f64, low: at(0.025), high: at(0.975) }
}

/// The mean of estimates of different items. Their errors do not depend on each other, so the squares of them add up.
pub(super) fn together(all: &[Estimate]) -> Estimate {
    let count = all.len().max(1) as f64;
    let value = all.iter().map(|it| it.value).sum::<f64>() / count;
    let apart = |ends: fn(&Estimate) -> f64| all.iter().map(|it| ends(it).powi(2)).sum::<f64>().sqrt() / count;
    let (below, above) = (apart(|it| it.value - it.low), apart(|it| it.high - it.value));
    Estimate { value, low: (value - below).max(0.0), high: (value + above).min(1.0) }
}

/// Numbers that look drawn, the same every time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(it: Estimate) -> [f64; 3] {
        [it.value, it.low, it.high].map(|number| (number * 1_000.0).round() / 1_000.0)
    }

    #[test]
    fn shares_have_the_interval_of_wilson() {
        assert_eq!(rounded(share(9, 10)), [0.9, 0.596, 0.982]);
        assert_eq!(rounded(share(0, 20)), [0.0, 0.0, 0.161]);
        assert_eq!(rounded(share(2, 2)), [1.0, 0.342, 1.0]);
    }

    #[test]
    fn a_mean_lies_within_an_interval_that_is_the_same_every_time_and_narrower_with_more_numbers() {
        let numbers = [1.0, 0.5, 0.0, 1.0, 0.25, 1.0];
        let (one, more) = (mean(&numbers), mean(&numbers.repeat(20)));
        assert_eq!(one, mean(&numbers));
        assert!((one.value - 0.625).abs() < 1e-9 && one.low < 0.5 && one.high > 0.75, "{one:?}");
        assert!(more.high - more.low < (one.high - one.low) / 3.0, "{more:?} {one:?}");
        assert_eq!(mean(&[1.0; 5]), Estimate { value: 1.0, low: 1.0, high: 1.0 });
    }

    #[test]
    fn many_estimates_together_are_surer_than_each() {
        let each = Estimate { value: 0.5, low: 0.3, high: 0.7 };
        assert_eq!(rounded(together(&[each; 4])), [0.5, 0.4, 0.6]);
        assert_eq!(rounded(together(&[each])), [0.5, 0.3, 0.7]);
    }
}
