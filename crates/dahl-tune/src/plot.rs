//! A small plot in the terminal: durations over work, both on logarithmic scales.

/// Width and height of the field, in characters.
const SIZE: (usize, usize) = (64, 14);

const MARKS: &[char] = &['o', 'x', '+', '*', '#', '@', '%', '&'];

/// Draws points of (work, seconds, series); none if there is no range to draw.
pub(crate) fn draw_durations(points: &[(f64, f64, usize)], names: &[String]) -> Option<String> {
    let good: Vec<(f64, f64, usize)> = points
        .iter()
        .filter(|p| p.0 > 0.0 && p.1 > 0.0)
        .map(|p| (p.0.log10(), p.1.log10(), p.2))
        .collect();
    let range = |of: fn(&(f64, f64, usize)) -> f64| {
        let low = good.iter().map(of).fold(f64::INFINITY, f64::min);
        let high = good.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        (low, high)
    };
    let (x, y) = (range(|p| p.0), range(|p| p.1));
    if good.len() < 2 || x.1 - x.0 < 1e-9 {
        return None;
    }
    let (width, height) = SIZE;
    let place = |v: f64, (low, high): (f64, f64), cells: usize| {
        let share = (v - low) / (high - low).max(1e-9);
        (share * (cells - 1) as f64).round() as usize
    };
    let mut field = vec![vec![' '; width]; height];
    for &(px, py, series) in &good {
        let cell = &mut field[height - 1 - place(py, y, height)][place(px, x, width)];
        let mark = MARKS[series % MARKS.len()];
        // Several series in one place.
        *cell = if *cell == ' ' || *cell == mark {
            mark
        } else {
            '·'
        };
    }
    let mut out = String::new();
    for (i, line) in field.iter().enumerate() {
        let label = match i {
            0 => dahl_core::Seconds(10f64.powf(y.1)).to_string(),
            _ if i == height - 1 => dahl_core::Seconds(10f64.powf(y.0)).to_string(),
            _ => String::new(),
        };
        let line: String = line.iter().collect();
        out.push_str(&format!("{label:>10} │{}\n", line.trim_end()));
    }
    out.push_str(&format!("{:>10} └{}\n", "", "─".repeat(width)));
    let (low, high) = (amount(10f64.powf(x.0)), amount(10f64.powf(x.1)));
    let gap = width.saturating_sub(low.len() + high.len());
    out.push_str(&format!("{:>12}{low}{}{high}\n", "", " ".repeat(gap)));
    out.push_str(&format!("{:>12}work: the larger of flops and bytes\n", ""));
    for (i, name) in names.iter().enumerate() {
        out.push_str(&format!("{:>12}{} {name}\n", "", MARKS[i % MARKS.len()]));
    }
    Some(out)
}

fn amount(v: f64) -> String {
    let (scale, unit) = match v {
        v if v >= 1e9 => (1e9, "G"),
        v if v >= 1e6 => (1e6, "M"),
        v if v >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{:.3}{unit}", v / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_in_their_corners() {
        let names = ["a".to_string(), "b".to_string()];
        let points = [(1e3, 1e-6, 0), (1e6, 1e-3, 1)];
        let text = draw_durations(&points, &names).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with('x'), "{text}");
        assert_eq!(lines[SIZE.1 - 1].chars().nth(12), Some('o'), "{text}");
        assert!(text.contains("1.000k") && text.contains("1.000M"), "{text}");
        assert!(draw_durations(&points[..1], &names).is_none());
    }
}
