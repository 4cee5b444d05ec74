//! What was measured, by row, party and figure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::measure::quantile;

/// All that a run of the benchmark measured; a figure has as many values as there were rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheet {
    values: BTreeMap<(String, String, String), Vec<f64>>,
}

impl Sheet {
    /// Adds the figures that one process told of itself: an object of numbers.
    pub(crate) fn add(&mut self, row: &str, party: &str, told: &Value) {
        for (figure, value) in told.as_object().expect("an object of figures") {
            let value = value.as_f64().unwrap_or_else(|| panic!("{figure} is no number: {value}"));
            let key = (row.to_owned(), party.to_owned(), figure.clone());
            self.values.entry(key).or_default().push(value);
        }
    }

    /// Returns the median of a figure.
    pub(crate) fn median(&self, row: &str, party: &str, figure: &str) -> Option<f64> {
        let key = (row.to_owned(), party.to_owned(), figure.to_owned());
        self.values.get(&key).map(|values| quantile(&mut values.clone(), 0.5))
    }

    /// Returns how many times a figure of one row is that of another: the median over the rounds,
    /// since what disturbs the machine for a while disturbs both.
    pub(crate) fn ratio(
        &self,
        one: (&str, &str),
        other: (&str, &str),
        figure: &str,
    ) -> Option<f64> {
        let values = |(row, party): (&str, &str)| {
            self.values.get(&(row.to_owned(), party.to_owned(), figure.to_owned()))
        };
        let rounds = values(one)?.iter().zip(values(other)?);
        let mut ratios: Vec<f64> = rounds.map(|(one, other)| one / other).collect();
        Some(quantile(&mut ratios, 0.5))
    }

    /// Returns how often what was measured most rarely was.
    pub(crate) fn rounds(&self) -> usize {
        // What is counted is measured once, however many rounds there are.
        let timed = self.values.iter().filter(|((.., figure), _)| figure == "cpu_us");
        let timed = timed.filter(|((row, ..), _)| !row.starts_with("allocations"));
        timed.map(|(_, values)| values.len()).min().unwrap_or_default()
    }

    /// Tells whether a row was measured.
    pub(crate) fn has(&self, row: &str) -> bool {
        self.values.keys().any(|(known, ..)| known == row)
    }

    /// Writes all values, for another process.
    pub(crate) fn to_json(&self) -> Value {
        let one = |((row, party, figure), values): (&(String, String, String), &Vec<f64>)| {
            Value::from(vec![
                Value::from(row.as_str()),
                Value::from(party.as_str()),
                Value::from(figure.as_str()),
                Value::from(values.clone()),
            ])
        };
        self.values.iter().map(one).collect()
    }

    /// Adds the values that another process wrote.
    pub(crate) fn merge(&mut self, told: &Value) {
        for value in told.as_array().expect("a list of values") {
            let (row, party, figure, values): (String, String, String, Vec<f64>) =
                serde_json::from_value(value.clone()).expect("a row of values");
            for value in values {
                let one = Map::from_iter([(figure.clone(), Value::from(value))]);
                self.add(&row, &party, &Value::from(one));
            }
        }
    }
}
