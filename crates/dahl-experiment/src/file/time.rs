//! Times as people write them: `3 s`, `500 ms`, `2 min`.

use std::time::Duration;

/// Longest time that is believed: a day.
const LONGEST: f64 = 86_400.0;

/// Reads a time.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - unit.len()];
    let scale = match unit.trim() {
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "{text:?} is no time: write it as \"3 s\", \"500 ms\" or \"2 min\""
            ));
        }
    };
    let seconds = number.parse::<f64>().map(|n| n * scale).unwrap_or(f64::NAN);
    match (0.0..=LONGEST).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("{text:?} is no time from 0 s to 24 h")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse("3 s"), Ok(Duration::from_secs(3)));
        assert_eq!(parse("1.5min"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("250 ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "3", "s", "-1 s", "1e3 s", "30 h", "NaN s", "3 s s", "…"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
