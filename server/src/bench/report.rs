//! What came out: medians, ratios, the table for people and the document for programs.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use serde::Serialize;

use super::{
    Measure,
    machine::{Cpu, Machine},
};

/// What one measurement found.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// In the measure's unit.
    pub value: f64,
    /// Who took how much of the processor for it.
    pub cpu: Cpu,
}

/// The values of all rounds.
#[derive(Debug, Default)]
pub struct Samples(BTreeMap<Measure, Vec<Sample>>);

impl Samples {
    /// One more.
    pub fn add(&mut self, measure: Measure, sample: Sample) {
        self.0.entry(measure).or_default().push(sample);
    }

    fn values(&self, measure: Measure) -> Option<Vec<f64>> {
        Some(self.0.get(&measure)?.iter().map(|sample| sample.value).collect())
    }

    fn cpu(&self, measure: Measure) -> Cpu {
        let samples = self.0.get(&measure).map_or(&[][..], Vec::as_slice);
        let median = |part: fn(&Cpu) -> f64| {
            let values: Vec<f64> = samples.iter().map(|sample| part(&sample.cpu)).collect();
            rounded(quantile(&values, 0.5))
        };
        Cpu {
            snaphook: median(|cpu| cpu.snaphook),
            database: median(|cpu| cpu.database),
            bench: median(|cpu| cpu.bench),
        }
    }

    fn median(&self, measure: Measure) -> Option<f64> {
        self.values(measure).map(|values| quantile(&values, 0.5))
    }
}

/// The value below which the part `q`, 0 to 1, of all lies; 0 of none.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in a list of at most some thousands"
    )]
    let place = (last as f64 * q).round() as usize;
    sorted.get(place).copied().unwrap_or(0.0)
}

/// How many a second.
pub fn per_second(many: u64, took: Duration) -> f64 {
    as_number(many) / took.as_secs_f64().max(f64::EPSILON)
}

/// For ratios: exact up to 2^53, which nothing here comes near.
#[expect(clippy::cast_precision_loss, reason = "counts of a few minutes")]
pub fn as_number(many: u64) -> f64 {
    many as f64
}

/// The whole result, as it is written to `target/bench.json`.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: Machine,
    results: Vec<Outcome>,
}

/// One measure.
#[derive(Debug, Serialize)]
struct Outcome {
    name: String,
    #[serde(skip)]
    measure: Measure,
    /// The median of all rounds.
    value: f64,
    unit: &'static str,
    /// The median of what it is compared with.
    ceiling: Option<f64>,
    /// `value` / `ceiling`.
    ratio: Option<f64>,
    must: Option<f64>,
    aim: Option<f64>,
    met: Option<bool>,
    /// The median of what each unit of work cost: less shaken by others' work than the rates.
    cpu_us: Cpu,
    /// The lowest and the highest of all rounds: how far to trust the median.
    #[serde(skip)]
    range: (f64, f64),
}

impl Report {
    /// Of what was measured on `machine`.
    pub fn new(machine: Machine, samples: &Samples) -> Self {
        let outcome = |measure: &Measure| {
            let values = samples.values(*measure)?;
            let facts = measure.facts();
            let value = samples.median(*measure)?;
            let ceiling = facts.ceiling.and_then(|ceiling| samples.median(ceiling));
            let ratio = ceiling.map(|ceiling| value / ceiling);
            let met = facts.met(value, ratio);
            Some(Outcome {
                name: measure.name(),
                measure: *measure,
                value: rounded(value),
                unit: facts.unit,
                ceiling: ceiling.map(rounded),
                ratio: ratio.map(rounded),
                must: facts.goal.map(|goal| rounded(goal.must)),
                aim: facts.goal.map(|goal| rounded(goal.aim)),
                met,
                range: (quantile(&values, 0.0), quantile(&values, 1.0)),
                cpu_us: samples.cpu(*measure),
            })
        };
        Self { machine, results: Measure::ALL.iter().filter_map(outcome).collect() }
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("strings and finite numbers are JSON") + "\n"
    }

    /// For people.
    pub fn to_table(&self) -> String {
        let mut table = format!("{}\n\n", self.machine);
        let _ = writeln!(
            table,
            "{:<44} {:>7} {:>15} {:>5} {:>5} {:>5}  {:>15}",
            "", "median", "all rounds", "ratio", "must", "aim", "CPU"
        );
        for one in &self.results {
            let Outcome { measure, value, range, ratio, must, aim, met, cpu_us: cpu, .. } = one;
            let shown = |number: &Option<f64>| number.map_or(String::new(), short);
            let verdict = met.map_or("", |met| if met { "met" } else { "not met" });
            let line = format!(
                "{:<44} {:>7} {:>15} {:>5} {:>5} {:>5}  {:>15}  {verdict}",
                measure.facts().title,
                short(*value),
                format!("{} – {}", short(range.0), short(range.1)),
                shown(ratio),
                shown(must),
                shown(aim),
                format!("{:.0}/{:.0}/{:.0}", cpu.snaphook, cpu.database, cpu.bench),
            );
            let _ = writeln!(table, "{}", line.trim_end());
        }
        table += "\nRates are a second, latencies in ms; ratio: to R32 or RAW of the same run.\n\
                  CPU: µs for each, of snaphook, of PostgreSQL, of load and receiver.\n";
        table
    }
}

/// Enough figures to compare, not more than were measured.
fn rounded(value: f64) -> f64 {
    let places = if value.abs() < 100.0 { 1000.0 } else { 1.0 };
    (value * places).round() / places
}

fn short(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut samples = Samples::default();
        for (r32, emit, latency) in
            [(10_000.0, 6_000.0, 1.5), (12_000.0, 3_000.0, 9.0), (8_000.0, 4_000.0, 2.0)]
        {
            let cpu = Cpu { snaphook: 0.0, database: emit / 100.0, bench: 0.0 };
            samples.add(Measure::R32, Sample { value: r32, cpu });
            samples.add(Measure::EmitOne, Sample { value: emit, cpu });
            samples.add(Measure::LatencyHalf, Sample { value: latency, cpu });
        }
        Report::new(Machine::default(), &samples)
    }

    #[test]
    fn the_document_has_medians_ratios_and_verdicts() {
        let json: serde_json::Value = serde_json::from_str(&report().to_json()).unwrap();
        let results = json["results"].as_array().unwrap();
        assert_eq!(results.len(), 3, "what was not measured is not there");
        assert_eq!(
            results[1],
            serde_json::json!({
                "name": "emit_sql_fanout_1", "value": 4_000.0, "unit": "events/s",
                "ceiling": 10_000.0, "ratio": 0.4, "must": 0.35, "aim": 0.5, "met": true,
                "cpu_us": {"snaphook": 0.0, "database": 40.0, "bench": 0.0},
            })
        );
        assert_eq!(results[0]["met"], serde_json::Value::Null, "a ceiling has no goal");
        assert_eq!(results[2]["value"], 2.0);
    }

    #[test]
    fn the_table_shows_how_far_the_rounds_lie_apart() {
        let table = report().to_table();
        let line = table.lines().find(|line| line.starts_with("emit by SQL")).unwrap();
        assert!(line.contains("3000 – 6000") && line.ends_with("met"), "{line}");
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let hundred: Vec<f64> = (1..=101).map(f64::from).collect();
        for (values, q, expected) in [
            (&[][..], 0.5, 0.0),
            (&[3.0], 0.99, 3.0),
            (&[3.0, 1.0, 2.0], 0.5, 2.0),
            (&hundred, 0.99, 100.0),
            (&hundred, 1.0, 101.0),
        ] {
            assert!((quantile(values, q) - expected).abs() < f64::EPSILON, "{q} of {values:?}");
        }
    }
}
