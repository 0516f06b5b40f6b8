//! Results on standard output.

use std::io::{self, Write};
use std::thread;

use crate::failure::Failure;

/// Prints `text` and a newline. A reader that closes the pipe early (`reel titles | head`) is no
/// failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    try_print(text).map_err(|error| Failure::failed(format!("cannot write the result: {error}")))
}

/// Prints `text` and a newline on a thread of its own. Standard output may have no reader, and a
/// server neither waits for one nor ends without one.
pub(crate) fn print_aside(text: String) {
    let run = move || {
        if let Err(error) = try_print(&text) {
            tracing::warn!(text, %error, "cannot write to standard output");
        }
    };
    if let Err(error) = thread::Builder::new().name("reel-print".to_owned()).spawn(run) {
        tracing::warn!(%error, "cannot write to standard output");
    }
}

fn try_print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match writeln!(output, "{text}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Rows as columns: each column as wide as its widest cell, two spaces between.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width_of =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|column| width_of(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A length of time: `1:02:03`, `2:03`.
pub(crate) fn clock_text(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["id".into(), "name".into()], vec!["über-uns".into(), "x".into()]];
        assert_eq!(columns(&rows), "id        name\nüber-uns  x");
        assert_eq!(columns(&[]), "");
    }

    #[test]
    fn times_are_those_of_a_clock() {
        assert_eq!(clock_text(0.4), "0:00");
        assert_eq!(clock_text(123.0), "2:03");
        assert_eq!(clock_text(3723.2), "1:02:03");
        assert_eq!(clock_text(f64::NAN), "0:00");
    }
}
