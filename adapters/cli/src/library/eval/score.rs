//! Answers counted, per stratum and over all strata.

use serde_json::{Value, json};

use super::intervals::{Estimate, mean, share, together};

/// How deep a session may stand for nDCG.
const DEEP: usize = 10;
const MEAN: &str = "mean";
pub(super) const HEAD: [&str; 10] =
    ["ARM", "STRATUM", "ITEMS", "S@1 95 %", "S@3 95 %", "S@10 95 %", "MRR 95 %", "NDCG@10 95 %", "FALSE HITS 95 %", "BYTES"];

/// One stratum under one arm.
#[derive(Clone, Debug, Default)]
pub(super) struct Score {
    items: u64,
    absent: bool,
    /// Answered by the first session, by one of the first three, of the first ten.
    first: u64,
    third: u64,
    tenth: u64,
    /// Absent, and answered all the same.
    wrong: u64,
    /// Of each item. Any one of the expected is all that was wanted, so the gain is that of the first of them, and at best 1.
    reciprocals: Vec<f64>,
    gains: Vec<f64>,
    /// Of all answers.
    bytes: u64,
}

/// Of absent items only false hits are counted, of the others only hits.
#[derive(Debug)]
pub(super) struct Row {
    arm: &'static str,
    stratum: String,
    items: u64,
    hits: Option<Hits>,
    false_hits: Option<Estimate>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Hits {
    success_at_1: Estimate,
    success_at_3: Estimate,
    success_at_10: Estimate,
    mrr: Estimate,
    ndcg_at_10: Estimate,
}

impl Score {
    pub(super) fn count(&mut self, absent: bool, rank: Option<usize>, answered: bool, bytes: u64) {
        self.items += 1;
        self.bytes += bytes;
        self.absent = absent;
        if absent {
            self.wrong += u64::from(answered);
            return;
        }
        let within = |most: usize| u64::from(rank.is_some_and(|rank| rank <= most));
        self.first += within(1);
        self.third += within(3);
        self.tenth += within(10);
        self.reciprocals.push(rank.map_or(0.0, |rank| 1.0 / rank as f64));
        let gain = rank.filter(|rank| *rank <= DEEP).map_or(0.0, |rank| 1.0 / (rank as f64 + 1.0).log2());
        self.gains.push(gain);
    }

    pub(super) fn row(&self, arm: &'static str, stratum: &str) -> Row {
        let hits = || Hits {
            success_at_1: share(self.first, self.items),
            success_at_3: share(self.third, self.items),
            success_at_10: share(self.tenth, self.items),
            mrr: mean(&self.reciprocals),
            ndcg_at_10: mean(&self.gains),
        };
        Row {
            arm,
            stratum: stratum.to_owned(),
            items: self.items,
            hits: (!self.absent).then(hits),
            false_hits: self.absent.then(|| share(self.wrong, self.items)),
            bytes: self.bytes,
        }
    }
}

impl Row {
    /// Of the strata that have answers, each of which weighs the same.
    pub(super) fn mean(arm: &'static str, rows: &[Self]) -> Option<Self> {
        let answerable: Vec<(&Self, Hits)> = rows.iter().filter_map(|row| Some((row, row.hits?))).collect();
        if answerable.is_empty() {
            return None;
        }
        let of = |measure: fn(&Hits) -> Estimate| together(&answerable.iter().map(|(_, hits)| measure(hits)).collect::<Vec<_>>());
        let hits = Hits {
            success_at_1: of(|it| it.success_at_1),
            success_at_3: of(|it| it.success_at_3),
            success_at_10: of(|it| it.success_at_10),
            mrr: of(|it| it.mrr),
            ndcg_at_10: of(|it| it.ndcg_at_10),
        };
        let sum = |count: fn(&Self) -> u64| answerable.iter().map(|(row, _)| count(row)).sum::<u64>();
        Some(Self {
            arm,
            stratum: MEAN.to_owned(),
            items: sum(|row| row.items),
            hits: Some(hits),
            false_hits: None,
            bytes: sum(|row| row.bytes),
        })
    }

    fn bytes_per_answer(&self) -> u64 {
        self.bytes / self.items.max(1)
    }

    /// Fields are added and never renamed. `low` and `high` are of `success_at_1`, or of `false_hits`.
    pub(super) fn json(&self) -> Value {
        let told = [
            ("success_at_1", self.hits.map(|it| it.success_at_1)),
            ("success_at_3", self.hits.map(|it| it.success_at_3)),
            ("success_at_10", self.hits.map(|it| it.success_at_10)),
            ("mrr", self.hits.map(|it| it.mrr)),
            ("ndcg_at_10", self.hits.map(|it| it.ndcg_at_10)),
            ("false_hits", self.false_hits),
        ];
        let main = self.hits.map(|it| it.success_at_1).or(self.false_hits);
        let mut row = json!({
            "arm": self.arm,
            "stratum": self.stratum,
            "items": self.items,
            "low": main.map(|it| it.low),
            "high": main.map(|it| it.high),
            "bytes_per_answer": self.bytes_per_answer(),
        });
        for (name, estimate) in told {
            row[name] = json!(estimate.map(|it| it.value));
            row["intervals"][name] = json!(estimate.map(|it| [it.low, it.high]));
        }
        row
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let told = |estimate: Option<Estimate>| {
            estimate.map_or_else(String::new, |it| format!("{:.2} {:.2}-{:.2}", it.value, it.low, it.high))
        };
        let hits = |measure: fn(&Hits) -> Estimate| told(self.hits.as_ref().map(measure));
        vec![
            self.arm.to_owned(),
            self.stratum.clone(),
            self.items.to_string(),
            hits(|it| it.success_at_1),
            hits(|it| it.success_at_3),
            hits(|it| it.success_at_10),
            hits(|it| it.mrr),
            hits(|it| it.ndcg_at_10),
            told(self.false_hits),
            self.bytes_per_answer().to_string(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ranks: &[Option<usize>]) -> Row {
        let mut score = Score::default();
        ranks.iter().for_each(|rank| score.count(false, *rank, rank.is_some(), 100));
        score.row("keyword", "natural")
    }

    fn silent(answered: &[bool]) -> Row {
        let mut score = Score::default();
        answered.iter().for_each(|answered| score.count(true, None, *answered, 10));
        score.row("keyword", "absent")
    }

    #[test]
    fn hits_are_counted_by_rank_and_each_measure_has_its_interval() {
        let row = of(&[Some(1), Some(3), Some(12), None]).json();
        let told = ["success_at_1", "success_at_3", "success_at_10", "false_hits"].map(|name| row[name].clone());
        assert_eq!(told, [json!(0.25), json!(0.5), json!(0.5), Value::Null]);
        assert!((row["mrr"].as_f64().unwrap() - (1.0 + 1.0 / 3.0 + 1.0 / 12.0) / 4.0).abs() < 1e-9, "{row}");
        assert_eq!(row["ndcg_at_10"], json!((1.0 + 0.5) / 4.0), "{row}");
        for name in ["success_at_1", "success_at_3", "success_at_10", "mrr", "ndcg_at_10"] {
            let (value, ends) = (row[name].as_f64().unwrap(), &row["intervals"][name]);
            assert!(ends[0].as_f64().unwrap() < value && value < ends[1].as_f64().unwrap(), "{name}: {row}");
        }
        assert_eq!((&row["low"], &row["bytes_per_answer"]), (&row["intervals"]["success_at_1"][0], &json!(100)));
        assert_eq!(row["intervals"]["false_hits"], Value::Null);
    }

    #[test]
    fn of_absent_items_only_false_hits_are_told() {
        let row = silent(&[false, true]).json();
        assert_eq!((&row["false_hits"], &row["success_at_1"], &row["mrr"]), (&json!(0.5), &Value::Null, &Value::Null));
        assert_eq!(row["high"], row["intervals"]["false_hits"][1]);
    }

    #[test]
    fn strata_weigh_the_same_in_the_mean_and_absent_ones_nothing() {
        let rows = [of(&[Some(1); 9]), silent(&[true; 5]), of(&[None])];
        let mean = Row::mean("keyword", &rows).unwrap().json();
        assert_eq!((&mean["stratum"], &mean["items"], &mean["success_at_1"]), (&json!("mean"), &json!(10), &json!(0.5)));
        assert!(Row::mean("keyword", &rows[1..2]).is_none());
        assert_eq!(of(&[Some(1)]).cells().len(), HEAD.len());
    }
}
