//! A schedule as an SVG: channels as rows, slots as columns, and one client.

use std::fmt::Write;

use reel_broadcast::{Plan, Visit};

/// Most columns, so that the drawing can be read.
const SLOTS_MAX: u64 = 64;
/// Most rows, likewise.
const CHANNELS_MAX: usize = 32;
/// The slot at which the client joins.
const ARRIVAL_SLOT: u64 = 3;

/// Pixels.
const LEFT: u64 = 90;
const TOP: u64 = 64;
const WIDTH: u64 = 28;
const HEIGHT: u64 = 22;

/// The first slots of the first channels.
pub(super) fn draw(plan: &Plan) -> String {
    let schedule = &plan.schedule;
    let visit = Visit::new(schedule, ARRIVAL_SLOT);
    let rows = schedule.channels().len().min(CHANNELS_MAX);
    let slots = (ARRIVAL_SLOT + u64::from(schedule.segments()) + 2).min(SLOTS_MAX);
    let (width, height) = (LEFT + slots.max(20) * WIDTH + 20, TOP + (rows as u64 + 3) * HEIGHT + 40);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let heading = format!(
        "{}: {} segments on {} channels, slots of {:.2} s",
        schedule.scheme(),
        schedule.segments(),
        schedule.channels().len(),
        plan.slot_ns() as f64 / 1e9
    );
    text(&mut svg, (10, 22), "font-size=\"15\"", &heading);
    for slot in (0..slots).step_by(5) {
        let middle = LEFT + slot * WIDTH + WIDTH / 2;
        text(&mut svg, (middle, TOP - 8), "text-anchor=\"middle\" fill=\"#555\"", &format!("slot {slot}"));
    }
    for (row, table) in schedule.channels().iter().take(rows).enumerate() {
        label(&mut svg, row as u64, &format!("channel {}", row + 1));
        for slot in 0..slots {
            let segment = table.segment_at(slot);
            let is_received = visit
                .segments
                .iter()
                .any(|times| (times.channel as usize, times.received_slot) == (row, slot));
            cell(&mut svg, (row as u64, slot), segment, is_received);
        }
    }
    let row = rows as u64 + 1;
    label(&mut svg, row, "played");
    for times in visit.segments.iter().filter(|times| times.played_slot < slots) {
        cell(&mut svg, (row, times.played_slot), Some(times.segment), true);
    }
    arrival(&mut svg, row);
    let below = TOP + (row + 1) * HEIGHT + 22;
    text(&mut svg, (10, below), "fill=\"#555\"", &legend(plan, rows));
    svg.push_str("</svg>\n");
    svg
}

fn legend(plan: &Plan, rows: usize) -> String {
    let hidden = plan.schedule.channels().len() - rows;
    let hidden = if hidden > 0 { format!(" {hidden} more channels are not drawn.") } else { String::new() };
    format!(
        "A client joins at slot {ARRIVAL_SLOT}. It receives the framed segments, and plays each one slot behind.{hidden}"
    )
}

/// The line at which the client joins.
fn arrival(svg: &mut String, row: u64) {
    let (x, bottom) = (LEFT + ARRIVAL_SLOT * WIDTH, TOP + (row + 1) * HEIGHT);
    let _ = writeln!(svg, "<path d=\"M{x} {} V{bottom}\" stroke=\"#c00\" stroke-width=\"2\"/>", TOP - 4);
}

fn label(svg: &mut String, row: u64, name: &str) {
    text(svg, (LEFT - 8, TOP + row * HEIGHT + 15), "text-anchor=\"end\"", name);
}

/// A slot: its colour is that of the segment.
fn cell(svg: &mut String, (row, slot): (u64, u64), segment: Option<u32>, is_received: bool) {
    let (x, y) = (LEFT + slot * WIDTH, TOP + row * HEIGHT);
    let fill = match segment {
        // Neighbours differ by the golden angle.
        Some(segment) => {
            let lightness = if is_received { 68 } else { 92 };
            format!("hsl({}, 65%, {lightness}%)", u64::from(segment) * 137 % 360)
        }
        None => "#fff".to_owned(),
    };
    let frame = if is_received {
        "stroke=\"#111\" stroke-width=\"1.5\""
    } else {
        "stroke=\"#ddd\" stroke-width=\"1\""
    };
    let (width, height) = (WIDTH - 3, HEIGHT - 3);
    let _ = writeln!(
        svg,
        "<rect x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\" {frame}/>",
        x + 1,
        y + 1
    );
    if let Some(segment) = segment {
        let ink = if is_received { "fill=\"#111\"" } else { "fill=\"#888\"" };
        let attributes = format!("text-anchor=\"middle\" {ink}");
        text(svg, (x + WIDTH / 2, y + 15), &attributes, &segment.to_string());
    }
}

/// `content` has no characters that XML reserves.
fn text(svg: &mut String, (x, y): (u64, u64), attributes: &str, content: &str) {
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" {attributes}>{content}</text>");
}
