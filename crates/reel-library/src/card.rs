//! The card shown for a title that has no picture: its name on a colour that follows from the name.

use std::fmt::Write as _;

/// Characters of one line at the card's type size.
const LINE_CHARS: usize = 22;
/// Lines that fit.
const LINES_MAX: usize = 4;

/// An SVG of 640x360 with the name on it. The same name always gives the same bytes. The name is
/// escaped, and the picture refers to nothing outside itself.
pub fn card_svg(name: &str) -> String {
    let hue = reel_hue(name);
    let lines = wrap(name);
    let first_y = 190 - (lines.len() as i32 - 1) * 28;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 360\" width=\"640\" height=\"360\">\
         <defs><linearGradient id=\"g\" x1=\"0\" y1=\"0\" x2=\"1\" y2=\"1\">\
         <stop offset=\"0\" stop-color=\"hsl({hue},45%,32%)\"/><stop offset=\"1\" stop-color=\"hsl({},50%,14%)\"/>\
         </linearGradient></defs><rect width=\"640\" height=\"360\" fill=\"url(#g)\"/>\
         <g fill=\"#000\" fill-opacity=\".28\">",
        (hue + 40) % 360
    );
    // Perforations above and below, so that it is recognised as a film and not as a broken image.
    for hole in 0..10 {
        for y in [14, 322] {
            let _ =
                write!(svg, "<rect x=\"{}\" y=\"{y}\" width=\"36\" height=\"24\" rx=\"5\"/>", 14 + hole * 64);
        }
    }
    svg.push_str("</g><g fill=\"#fff\" font-family=\"system-ui,sans-serif\" font-size=\"44\" font-weight=\"600\" text-anchor=\"middle\">");
    for (index, line) in lines.iter().enumerate() {
        let _ = write!(svg, "<text x=\"320\" y=\"{}\">{}</text>", first_y + index as i32 * 56, escape(line));
    }
    svg.push_str("</g></svg>\n");
    svg
}

fn reel_hue(name: &str) -> u32 {
    // FNV-1a: any hash will do, as long as it is the same on every machine and in every version.
    name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)) % 360
}

fn wrap(name: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        while !rest.is_empty() {
            let part: String = rest.drain(..rest.len().min(LINE_CHARS)).collect();
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + part.chars().count() <= LINE_CHARS => {
                    line.push(' ');
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
        }
    }
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX);
        if let Some(last) = lines.last_mut() {
            if last.chars().count() >= LINE_CHARS {
                last.pop();
            }
            last.push('…');
        }
    }
    lines
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML 1.0 section 2.2 allows no other control characters, not even escaped.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_name_is_escaped_and_wrapped() {
        let svg = card_svg(
            "<script>alert('1')</script> & a rather long name that goes over several lines of it all, and on",
        );
        assert!(!svg.contains("<script"), "{svg}");
        assert!(svg.contains("&lt;script&gt;") && svg.contains("&amp;"));
        assert_eq!(svg.matches("<text").count(), LINES_MAX);
        assert!(svg.contains('…'));
        assert_eq!(card_svg("A"), card_svg("A"));
        assert_ne!(card_svg("A"), card_svg("B"));
    }

    proptest! {
        #[test]
        fn any_name_gives_balanced_markup(name in any::<String>()) {
            let svg = card_svg(&name);
            prop_assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
            prop_assert!(svg.matches("<text").count() <= LINES_MAX);
            let opened = svg.matches('<').count();
            prop_assert_eq!(opened, svg.matches('>').count());
            prop_assert!(svg.chars().all(|c| c == '\n' || !c.is_control()));
        }
    }
}
