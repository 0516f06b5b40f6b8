//! A report as lines in panels.

use crate::report::figure;
use crate::{Chart, Report, spread};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One panel for each chart, one under the other, with a line for each system.
pub(crate) fn draw(report: &Report) -> String {
    const WIDTH: usize = 860;
    const PANEL: usize = 260;
    let height = report.charts.len().max(1) * PANEL;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    );
    for (number, chart) in report.charts.iter().enumerate() {
        panel(report, &mut svg, chart, (number * PANEL) as f64, PANEL as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(report: &Report, svg: &mut String, chart: &Chart, top: f64, height: f64) {
    const COLOURS: [&str; 6] = ["#2563eb", "#9ca3af", "#d97706", "#059669", "#7c3aed", "#dc2626"];
    let lines = lines(report, chart);
    let points = || lines.values().flatten();
    let most_x = points().map(|point| point.0).fold(1e-9, f64::max);
    let most_y = points().map(|point| point.1).fold(1e-9, f64::max);
    let (left, right, base) = (70.0, 620.0, top + height - 40.0);
    let place =
        |(x, y): (f64, f64)| (left + x / most_x * (right - left), base - y / most_y * (base - top - 40.0));
    let Chart { case, at, value } = chart;
    let _ = write!(
        svg,
        "<text x=\"{left}\" y=\"{}\" font-size=\"14\">{case}: {value}</text>\
         <text x=\"{}\" y=\"{}\">{at}</text><text x=\"5\" y=\"{}\">{}</text><text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{}</text>\
         <path d=\"M{left} {} V{base} H{right}\" fill=\"none\" stroke=\"#111\"/>",
        top + 20.0,
        (left + right) / 2.0,
        base + 30.0,
        top + 45.0,
        figure(most_y),
        base + 15.0,
        figure(most_x),
        top + 35.0
    );
    for (number, (system, points)) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let path: Vec<_> =
            points.iter().map(|point| place(*point)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"640\" y=\"{}\" fill=\"{colour}\">{system}</text>",
            path.join(" "),
            top + 50.0 + number as f64 * 18.0
        );
        for point in points {
            let (x, y) = place(*point);
            let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
    }
}

/// Medians over the runs, by system, in the order of the quantity that was set.
pub(crate) fn lines(report: &Report, chart: &Chart) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut all: BTreeMap<String, Vec<(f64, Vec<f64>)>> = BTreeMap::new();
    for row in report.rows.iter().filter(|row| row.case == chart.case) {
        let Some(&value) = row.values.get(chart.value) else { continue };
        let line = all.entry(row.system.clone()).or_default();
        match line.iter_mut().find(|(at, _)| *at == row.at) {
            Some((_, values)) => values.push(value),
            None => line.push((row.at, vec![value])),
        }
    }
    let mut lines = BTreeMap::new();
    for (system, line) in all {
        let mut points: Vec<_> =
            line.into_iter().map(|(at, mut values)| (at, spread(&mut values).1)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        lines.insert(system, points);
    }
    lines
}
