//! Claims: what an experiment shows, beside the bar it must reach.

use serde::{Deserialize, Serialize};

/// Something that the rows show, and the bar it was compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// What is claimed, in words.
    pub claim: String,
    /// What was measured.
    #[serde(deserialize_with = "or_nan")]
    pub value: f64,
    /// What it is compared with.
    #[serde(deserialize_with = "or_nan")]
    pub bar: f64,
    /// Whether the value satisfies the bar.
    pub holds: bool,
}

/// JSON has no infinities: they are written as null.
fn or_nan<'a, D: serde::Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

impl Claim {
    /// A claim that `value` reaches `bar`.
    pub fn at_least(claim: String, value: f64, bar: f64) -> Self {
        Self { claim, value, bar, holds: value >= bar }
    }

    /// A claim that `value` does not exceed `bar`.
    pub fn at_most(claim: String, value: f64, bar: f64) -> Self {
        Self { claim, value, bar, holds: value <= bar }
    }

    /// A claim that `value` is `bar`, give or take `share` of it.
    pub fn within(claim: String, value: f64, bar: f64, share: f64) -> Self {
        Self { claim, value, bar, holds: (value - bar).abs() <= bar * share }
    }

    /// Its line of a table.
    pub fn line(&self) -> String {
        let verdict = if self.holds { "holds" } else { "does not hold" };
        format!("{:<88} {:>8.3}  bar {:>7.3}  {verdict}", self.claim, self.value, self.bar)
    }
}

/// Least, median and greatest; all 0 of no values.
pub fn spread(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match &*values {
        [] => (0.0, 0.0, 0.0),
        [only] => (*only, *only, *only),
        [least, .., greatest] if values.len() % 2 == 1 => (*least, values[middle], *greatest),
        [least, .., greatest] => (*least, (values[middle - 1] + values[middle]) / 2.0, *greatest),
    }
}
