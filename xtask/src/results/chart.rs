//! Bar charts as SVG, legible on white and on black: no background, and colours of middle
//! brightness.

use std::fmt::Write as _;

use super::raw::Spread;

/// Groups of bars from left to right, with whiskers from the least run to the greatest.
pub(crate) struct Chart {
    pub(crate) title: String,
    /// What a bar counts, and which way is better.
    pub(crate) unit: String,
    pub(crate) groups: Vec<Group>,
}

pub(crate) struct Group {
    pub(crate) label: String,
    pub(crate) bars: Vec<Bar>,
}

pub(crate) struct Bar {
    /// Bars of one series have one colour.
    pub(crate) series: String,
    pub(crate) spread: Spread,
}

const WIDTH: usize = 760;
/// Where bars begin.
const LEFT: usize = 240;
/// The longest label of a group that has room to the left of its bars.
pub(crate) const LABEL_CHARS_MAX: usize = 28;
/// Where the bar of the greatest value ends; its value is written behind it.
const RIGHT: usize = 680;
const BAR: usize = 18;
const GROUP_GAP: usize = 14;
const HEAD: usize = 84;
/// Contrast of at least 4.5 on white and on black.
const TEXT: &str = "#767676";
/// Whiskers lie on bars and beyond them.
const WHISKER: &str = "#c2410c";
const COLOURS: [&str; 4] = ["#3b82f6", "#8a8f98", "#b8741a", "#4d9e6a"];

impl Chart {
    /// The chart as an SVG document.
    pub(crate) fn svg(&self) -> String {
        let series = self.series();
        let bars: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        let height = HEAD + bars * BAR + self.groups.len() * GROUP_GAP;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"14\" fill=\"{TEXT}\">\n\
             <title>{title}</title>\n<text x=\"8\" y=\"22\" font-size=\"17\" font-weight=\"bold\">{title}</text>\n\
             <text x=\"8\" y=\"44\">{unit}</text>\n",
            title = escaped(&self.title),
            unit = escaped(&self.unit),
        );
        self.legend(&mut svg, &series);
        let mut y = HEAD;
        for group in &self.groups {
            let middle = y + group.bars.len() * BAR / 2 + 5;
            line(
                &mut svg,
                format_args!(
                    "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}</text>",
                    LEFT - 10,
                    escaped(&group.label)
                ),
            );
            for bar in &group.bars {
                let colour = series.iter().position(|name| *name == bar.series).unwrap_or(0);
                self.bar(&mut svg, bar, y, COLOURS[colour % COLOURS.len()]);
                y += BAR;
            }
            y += GROUP_GAP;
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Names of all series, in the order in which they first stand.
    fn series(&self) -> Vec<&str> {
        let mut series: Vec<&str> = Vec::new();
        for bar in self.groups.iter().flat_map(|group| &group.bars) {
            if !series.contains(&bar.series.as_str()) {
                series.push(&bar.series);
            }
        }
        series
    }

    fn legend(&self, svg: &mut String, series: &[&str]) {
        let mut x = LEFT;
        for (name, colour) in series.iter().zip(COLOURS.iter().cycle()) {
            line(
                svg,
                format_args!("<rect x=\"{x}\" y=\"56\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"),
            );
            line(svg, format_args!("<text x=\"{}\" y=\"67\">{}</text>", x + 18, escaped(name)));
            x += 48 + name.len() * 8;
        }
    }

    fn bar(&self, svg: &mut String, bar: &Bar, y: usize, colour: &str) {
        let all = self.groups.iter().flat_map(|group| &group.bars);
        let most = all.map(|bar| bar.spread.greatest).fold(f64::MIN_POSITIVE, f64::max);
        let x = |value: f64| LEFT as f64 + value / most * (RIGHT - LEFT) as f64;
        let Spread { median, least, greatest } = bar.spread;
        let width = x(median) - LEFT as f64;
        line(
            svg,
            format_args!(
                "<rect x=\"{LEFT}\" y=\"{}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"/>",
                y + 1,
                BAR - 3
            ),
        );
        if greatest > least {
            let (from, to, middle) = (x(least), x(greatest), y + BAR / 2);
            line(
                svg,
                format_args!(
                    "<path d=\"M{from:.1} {middle}H{to:.1}M{from:.1} {up}v8M{to:.1} {up}v8\" stroke=\"{WHISKER}\" stroke-width=\"1.5\" fill=\"none\"/>",
                    up = middle - 4
                ),
            );
        }
        line(
            svg,
            format_args!("<text x=\"{:.1}\" y=\"{}\">{}</text>", x(greatest) + 8.0, y + 14, number(median)),
        );
    }
}

fn line(svg: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "{text}");
}

/// A value with three digits where it is small.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        value if value < 1.0 => 3,
        value if value < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_long_as_they_need_be() {
        assert_eq!(number(0.395), "0.395");
        assert_eq!(number(0.36), "0.36");
        assert_eq!(number(12.5), "12.5");
        assert_eq!(number(2.0), "2");
        assert_eq!(number(1800.0), "1800");
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_spreads_have_whiskers() {
        let bar = |series: &str, median, greatest| Bar {
            series: series.into(),
            spread: Spread { median, least: median, greatest },
        };
        let groups =
            vec![Group { label: "a".into(), bars: vec![bar("Reel", 10.0, 10.0), bar("other", 5.0, 20.0)] }];
        let svg = Chart { title: "T".into(), unit: "u".into(), groups }.svg();
        assert!(svg.contains("width=\"220.0\" height=\"15\" fill=\"#3b82f6\""), "{svg}");
        assert!(svg.contains("width=\"110.0\" height=\"15\" fill=\"#8a8f98\""), "{svg}");
        assert_eq!(svg.matches("<path").count(), 1);
    }
}
